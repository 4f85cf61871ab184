"""A federation from nothing, by the commands `fedgrain flower init` wrote.

TLS, keys, a proxy, faults, and the policy of a site's owner.
"""

from __future__ import annotations

import http.client
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedgrain[flower]'")

from connect_proxy import ConnectProxy
from fedgrain.deployment.certificates import write_key_pair
from fedgrain.records.audit import read_audit
from flower_federation import Federation, needs_nginx, typed
from flower_network import Network, Started, free_port, nothing_left, wait_until


def taking_part(line: dict[str, Any]) -> set[str]:
    return {client["client"] for client in line["clients"]}


def through_a_proxy(federation: Federation, network: Network, proxy: ConnectProxy) -> Started:
    """Check and start the zoo behind a proxy, which refuses all but tunnels to the gate."""
    variables = {"https_proxy": proxy.url, "http_proxy": proxy.url, "no_proxy": ""}
    found = federation.findings("zoo", **variables)["connection"]
    assert found["good"] and found["text"].endswith(f"answers through the proxy {proxy.url}")
    asked = len(proxy.asked)
    node = federation.start_site(network, "zoo", **variables)
    wait_until(lambda: "SuperNode ID" in node.text(), "the zoo joins")
    assert len(proxy.asked) > asked
    assert {line.split()[1] for line in proxy.asked} == {f"127.0.0.1:{federation.port}"}
    assert {line.split()[0] for line in proxy.asked} == {"CONNECT"}
    return node


NOW = datetime.now()
LATER = f"{NOW + timedelta(hours=2):%H}:00-{NOW + timedelta(hours=3):%H}:00"
POLICIES = {  # the museum's owner writes one after the other, while the run goes on
    "work.rounds": "[work]\nrounds = 1\n",
    "work.hours": f'[work]\nhours = ["{LATER}"]\n',
    "app.sha256": f'[app]\nsha256 = "{"0" * 64}"\n',
    "config.lr": "[config]\nlr = {most = 0.001}\n",
}


def the_owner_decides(federation: Federation, museum: Started, run: Started) -> None:
    """Every rule is named in both logs, and the rounds go on without the museum, then with it."""
    policy = federation.folder / "museum" / "site.toml"
    for rule, text in POLICIES.items():
        policy.write_text(text)
        at_server = f"its policy declines, by {rule}: "
        wait_until(lambda: at_server in run.text(), f"the server names {rule}")  # noqa: B023
        wait_until(lambda: f": {rule}: " in museum.text(), f"the site names {rule}")  # noqa: B023
        rounds = len(federation.lines())
        wait_until(lambda: len(federation.lines()) > rounds, "the next round")  # noqa: B023
        line = federation.lines()[rounds]
        assert taking_part(line) == {"zoo"}
    faults = [fault for line in federation.lines() for fault in line["faults"]]
    assert {"declined"} == {one["kind"] for one in faults if one["client"] == "museum"}
    policy.write_text("")
    wait_until(lambda: "museum" in taking_part(federation.lines()[-1]), "it takes part again")
    told = read_audit(federation.folder / "museum" / "record.jsonl")
    assert set(told.declined) == set(POLICIES)


@needs_nginx
def test_registered_sites_train_others_are_refused_and_faults_cost_one_update(
    tmp_path: Path, fedgrain: Callable[..., Any]
) -> None:
    federation = Federation(tmp_path, fedgrain)
    with ConnectProxy() as proxy, federation.network() as network:
        (command,) = typed(federation.commands, "fedgrain flower apply")
        assert "let in: herbarium, museum, zoo" in network.call("apply", command)
        found = federation.findings("museum")
        assert found["registration"]["text"] == "the server knows this key"
        assert found["name"]["text"] == "museum is a site of the app"
        assert "the key belongs to museum, until " in found["identity"]["text"]
        (tmp_path / "herbarium" / "hang").touch()
        (tmp_path / "museum" / "site.toml").write_text("[work]\nepochs = 5\n")
        nodes = {site: federation.start_site(network, site) for site in ("museum", "herbarium")}
        nodes["zoo"] = through_a_proxy(federation, network, proxy)

        write_key_pair(tmp_path / "stranger")
        strange = ["--key", tmp_path / "stranger", "--certificate", tmp_path / "zoo" / "ca.crt"]
        refused = federation.findings("museum", *strange)["identity"]
        assert not refused["good"] and "stranger.crt: there is no such file" in refused["text"]
        plain = network.start(
            "plain",
            ["flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{federation.port}",
             "--max-retries", "1", "--port", str(free_port())],
        )  # fmt: skip
        (command,) = typed(federation.commands, "flwr run")
        run = network.start("run", command)

        wait_until((tmp_path / "herbarium" / "hanging").exists, "herbarium trains")
        nodes["herbarium"].kill()
        (tmp_path / "herbarium" / "hang").unlink()
        wait_until(lambda: len(federation.lines()) >= 1, "the first round ends")
        the_owner_decides(federation, nodes["museum"], run)
        (tmp_path / "zoo" / "nan").touch()
        federation.bring_back(network, "herbarium")
        wait_until(lambda: "herbarium" in taking_part(federation.lines()[-1]), "it is back")
        log = run.text()

        wait_until(lambda: "400" in plain.text(), "a plain site is refused")
        assert "SuperNode ID" not in plain.text()
        with pytest.raises((http.client.HTTPException, OSError)):  # nothing but TLS
            connection = http.client.HTTPConnection("127.0.0.1", network.port, timeout=10)
            connection.request("GET", "/")
            connection.getresponse()
    nothing_left(f"FLWR_HOME={network.home}")

    first, *others = federation.lines()
    assert taking_part(first) == {"museum", "zoo"}
    assert [fault["client"] for fault in first["faults"]] == ["herbarium"]
    assert taking_part(others[-1]) == {"museum", "herbarium"}
    reason = "its update holds NaN or infinite numbers"
    fault = {"client": "zoo", "kind": "not-finite", "fault": reason}
    assert fault in others[-1]["faults"]
    number = len(others)  # the last line may be younger than the log
    assert any(f"fedavg {n}: zoo is left out: {reason}" in log for n in range(2, number + 2))
    assert "museum is connected with 40 samples" in log  # 50 less the fifth that validates
    told = [line["samples"] for line in (*first["clients"], *others[-1]["clients"])]
    assert [count % 10 for count in told] == [0] * len(told)
    assert "patient" not in log  # no name of a file leaves a site
