"""A federation from nothing, by the commands `fedgrain flower init` wrote: TLS, keys, faults."""

from __future__ import annotations

import http.client
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedgrain[flower]'")

from fedgrain.deployment.certificates import write_key_pair
from flower_federation import SITES, Federation, needs_nginx, typed
from flower_network import free_port, nothing_left, wait_until


def taking_part(line: dict[str, Any]) -> set[str]:
    return {client["client"] for client in line["clients"]}


@needs_nginx
def test_registered_sites_train_others_are_refused_and_faults_cost_one_update(
    tmp_path: Path, fedgrain: Callable[..., Any]
) -> None:
    federation = Federation(tmp_path, fedgrain)
    with federation.network() as network:
        (command,) = typed(federation.commands, "fedgrain flower apply")
        assert "let in: herbarium, museum, zoo" in network.call("apply", command)
        found = federation.findings("museum")
        assert found["registration"]["text"] == "the server knows this key"
        assert found["name"]["text"] == "museum is a site of the app"
        assert "the key belongs to museum, until " in found["identity"]["text"]
        (tmp_path / "herbarium" / "hang").touch()
        nodes = {site: federation.start_site(network, site) for site in SITES}

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
        wait_until(lambda: len(federation.lines()) == 1, "the first round ends")
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
