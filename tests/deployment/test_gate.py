"""The gate against attackers: a real SuperLink, nginx and SuperNodes, and a real exploit.

An outsider has what is public: the address and ca.crt, in a home of its own. A bad site has a
certificate. The evil app is the one that once ran on the server and at every site.
"""

from __future__ import annotations

import base64
import shutil
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedgrain[flower]'")

from flwr.cli.build import build_fab_from_disk

from fedgrain.deployment.certificates import flower_bytes, read_public_key, write_key_pair
from fedgrain.errors import DeploymentError
from fedgrain.membership.apply import apply
from fedgrain.membership.gate import CALLS
from fedgrain.membership.join import SiteCredentials
from flower_federation import Federation, needs_nginx, typed
from flower_network import Network, Started, free_port, nothing_left, wait_until

CONFIG = """\
net = "flower_parts:Net"
image_size = 32
rounds = 1
join_ratio = 1.0
batch = 16
client_time_limit = 140.0
"""
EVIL_PROJECT = """\
[project]
name = "fedgrain-app"
version = "1.0.0"
license = "Apache-2.0"
dependencies = []
[tool.flwr.app]
publisher = "fedgrain"
[tool.flwr.app.components]
serverapp = "evil.server:app"
clientapp = "evil.client:app"
[tool.flwr.app.config]
"""
EVIL_SERVER = """\
from flwr.app import Message, RecordDict
from flwr.serverapp import ServerApp
app = ServerApp()
@app.main()
def main(grid, context):
    messages = [Message(RecordDict(), node, "query") for node in grid.get_node_ids()]
    for reply in grid.send_and_receive(messages, timeout=100):
        print("EVIL", reply.error.code if reply.has_error() else "ran", flush=True)
    print("EVIL done", flush=True)
"""
EVIL_CLIENT = """\
import os
from flwr.app import Message, RecordDict
from flwr.clientapp import ClientApp
app = ClientApp()
@app.query()
def query(message, context):
    open(os.path.join(os.environ["FEDGRAIN_TEST_FAULTS"], "owned"), "w").close()
    return Message(RecordDict(), reply_to=message)
"""


def evil_app(folder: Path) -> Path:
    (folder / "evil").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(EVIL_PROJECT)
    (folder / "evil" / "__init__.py").touch()
    (folder / "evil" / "server.py").write_text(EVIL_SERVER)
    (folder / "evil" / "client.py").write_text(EVIL_CLIENT)
    return folder


def joined(node: Started) -> bool:
    return "SuperNode ID" in node.text()


def outsider_commands(federation: Federation, place: Path) -> dict[str, list[str]]:
    """Return what an outsider with ca.crt and the address types."""
    (place / "home").mkdir(parents=True)
    shutil.copy(federation.deployment / "certificates" / "ca.crt", place)
    address = f"127.0.0.1:{federation.port}"
    (place / "home" / "config.toml").write_text(
        f'[superlink]\ndefault = "victim"\n[superlink.victim]\naddress = "{address}"\n'
        f'root-certificates = "{place / "ca.crt"}"\n'
    )
    write_key_pair(place / "evil")
    return {
        "register": ["flwr", "supernode", "register", "evil.pub", "victim", "--name", "museum"],
        "nodes": ["flwr", "supernode", "list", "victim"],
        "run": ["flwr", "run", str(evil_app(place / "app")), "victim"],
        "list": ["flwr", "list", "victim"],
        "log": ["flwr", "log", "1", "victim", "--show"],
        "join": [
            "flower-supernode", "--root-certificates", "ca.crt", "--superlink", address,
            "--auth-supernode-private-key", "evil", "--port", str(free_port()),
            "--max-retries", "0",
        ],
    }  # fmt: skip


def outsiders_get_nothing(federation: Federation, network: Network) -> None:
    place = federation.folder / "outsider"
    commands = outsider_commands(federation, place)
    own = {"HOME": str(place), "FLWR_HOME": str(place / "home")}
    tries = {n: network.start(f"evil-{n}", c, place, **own) for n, c in commands.items()}
    for name, tried in tries.items():
        wait_until(lambda: tried.process.poll() is not None, name)  # noqa: B023
        assert tried.process.returncode != 0 and "400 Bad Request" in tried.text(), tried.text()
        assert not joined(tried)
    trust = ssl.create_default_context(cafile=place / "ca.crt")
    with httpx.Client(verify=trust, base_url=f"https://127.0.0.1:{federation.port}") as client:
        paths = ["/", "/docs", "/openapi.json", "/health", "/v1/control/list-runs"]
        paths += [f"/v1/fleet/{call}" for call in CALLS]
        assert {client.post(path).status_code for path in paths} == {400}
        assert "No required SSL certificate was sent" in client.get("/").text
    link = network.link.text()
    assert "RegisterNode" in link  # the operator's own, seen: what follows is no blindness
    assert not any(word in link for word in ("StartRun", "StreamLogs", "ListRuns"))


def a_certificate_opens_what_a_site_needs(federation: Federation) -> None:
    """A bad site has its certificate and key: it gets the Fleet calls, as itself, in bounds."""
    zoo = SiteCredentials.beside(federation.folder / "zoo" / "zoo")
    keys = {
        name: httpx.Headers({"flwr-public-key": encoded(federation.folder / name / f"{name}.pub")})
        for name in ("museum", "zoo")
    }
    address = f"https://127.0.0.1:{federation.port}"
    with httpx.Client(verify=zoo.context(), base_url=address, headers=keys["zoo"]) as client:
        for path in (
            "/", "/docs", "/v1/control/list-runs", "/v1/control/start-run", "/v1/runtime/get-nodes",
            "/v1/fleet/register-node", "/v1/fleet/unregister-node", "/v1/fleet/", "/v1/fleet",
            "/v1/fleet/activate-node/../../control/list-runs", "/v1/fleet/..%2fcontrol/list-runs",
            "/v1/fleet/activate-node/", "/V1/fleet/activate-node",
        ):  # fmt: skip
            assert client.post(path).status_code == 404, path
        call = "/v1/fleet/activate-node"
        assert client.get(call).status_code == 405
        assert client.post(call, headers=keys["museum"]).status_code == 401  # another's key
        assert client.post(call, content=b"x" * (17 << 20)).status_code == 413
        passed = client.post(call)  # through to Flower, which misses the signature
        assert passed.status_code not in (401, 404) or "SuperNode" in passed.text, passed.text


def encoded(path: Path) -> str:
    return base64.b64encode(flower_bytes(read_public_key(path)[0])).decode("ascii")


def sites_run_signed_apps_alone(federation: Federation, network: Network) -> None:
    """Whoever owns the SuperLink, but not the signing key, runs nothing at the sites."""
    evil = evil_app(federation.folder / "evil-app")
    unsigned = network.start("unsigned", ["flwr", "run", str(evil), "fedgrain", "--stream"])
    wait_until(lambda: "EVIL done" in unsigned.text(), "the unsigned app ends")
    fab, (command,) = federation.deployment / "app.fab", typed(federation.commands, "flwr run")
    signed = fab.read_bytes()
    fab.write_bytes(build_fab_from_disk(evil))  # with the signature of the other
    tampered = network.start("tampered", command)
    wait_until(lambda: "EVIL done" in tampered.text(), "the tampered app ends")
    fab.write_bytes(signed)
    for run in (unsigned, tampered):
        assert run.text().count("EVIL 7") == 2 and "EVIL ran" not in run.text(), run.text()
    assert not any((federation.folder / site / "owned").exists() for site in ("museum", "zoo"))


def impostors_stay_out_of_a_run(federation: Federation, network: Network) -> None:
    """A second key under a name, registered by mistake, even from the server itself."""
    place = federation.folder
    write_key_pair(place / "impostor")
    slip = ["flwr", "supernode", "register", str(place / "impostor.pub"), "fedgrain"]
    network.call("slip", [*slip, "--name", "museum"])
    impostor = network.start(
        "impostor",
        [
            "flower-supernode", "--superlink", f"127.0.0.1:{network.port}",
            "--root-certificates", str(federation.deployment / "certificates" / "ca.crt"),
            "--auth-supernode-private-key", str(place / "impostor"), "--port", str(free_port()),
            "--node-config", f'site="museum" images="{federation.manifests["museum"]}"',
        ],
    )  # fmt: skip
    wait_until(lambda: joined(impostor), "the impostor is at the SuperLink")
    (command,) = typed(federation.commands, "flwr run")
    run = network.start("run", command)
    wait_until((federation.deployment / "run" / "result.json").exists, "the run ends", 600)
    assert "museum does not take part: its key is not the recorded key" in run.text()
    assert {"museum is connected", "zoo is connected"} <= {
        line.removeprefix("fedgrain: ").split(" with")[0] for line in run.text().splitlines()
    }
    assert "Receiving" not in impostor.text()  # it was sent nothing
    assert federation.operate("apply", federation.deployment)["unregistered"] == ["museum"]


def a_removed_site_is_out(federation: Federation, zoo: Started) -> None:
    rules = federation.deployment / "nginx.conf"
    sound = rules.read_text()
    rules.write_text(sound.replace('default "-";', 'default "-"; default "-";'))
    with pytest.raises(DeploymentError, match="the gate keeps its old rules: nginx refuses"):
        apply(federation.deployment)
    rules.write_text(sound)
    federation.operate("remove", federation.deployment, "zoo")
    applied = federation.operate("apply", federation.deployment)
    assert applied == {
        "registered": [], "unregistered": ["zoo"], "without_key": ["zoo"], "gate": True,
    }  # fmt: skip
    wait_until(lambda: gate_answer(federation, "zoo") == 401, "the gate follows", 30)
    assert gate_answer(federation, "museum") not in (400, 401)
    wait_until(lambda: zoo.process.poll() is not None, "its SuperNode ends")


def gate_answer(federation: Federation, site: str) -> int:
    """Call as a site's SuperNode does, without Flower's own signature; 422 is Flower's answer."""
    credentials = SiteCredentials.beside(federation.folder / site / site)
    header = {"flwr-public-key": encoded(federation.folder / site / f"{site}.pub")}
    address = f"https://127.0.0.1:{federation.port}"
    with httpx.Client(verify=credentials.context(), base_url=address, headers=header) as client:
        return client.post("/v1/fleet/pull-messages").status_code


def everything_can_be_renewed(federation: Federation, network: Network, museum: Started) -> None:
    before = gate_answer(federation, "museum")
    federation.operate("renew", federation.deployment)
    federation.operate("apply", federation.deployment)
    assert gate_answer(federation, "museum") == before  # the last certificate opens it still
    federation.hand_out("museum")
    assert gate_answer(federation, "museum") == before

    museum.process.terminate()
    museum.process.wait(60)
    federation.operate("renew", federation.deployment, "--everything")
    network.link.kill()
    network.gate.kill()
    network.start_server()
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        gate_answer(federation, "museum")
    old = federation.folder / "museum" / "museum.crt"
    shutil.copy(old, federation.folder / "old.crt")
    federation.hand_out("museum")
    new = SiteCredentials.beside(federation.folder / "museum" / "museum")
    stale = SiteCredentials.beside(new.key, own=federation.folder / "old.crt")
    with httpx.Client(verify=stale.context()) as client:
        assert client.post(f"https://127.0.0.1:{federation.port}/").status_code == 400
    federation.operate("apply", federation.deployment)
    assert gate_answer(federation, "museum") == before
    node = federation.start_site(network, "museum")
    wait_until(lambda: node.text().count("SuperNode ID") == 2, "museum joins again")


def listening(port: int) -> set[str]:
    """Return the addresses (in the kernel's hexadecimal) on which something listens."""
    lines = [line.split() for name in ("tcp", "tcp6") for line in tcp_table(name)]
    return {local.split(":")[0] for _, local, _, state, *_ in lines
            if state == "0A" and int(local.split(":")[1], 16) == port}  # fmt: skip


def tcp_table(name: str) -> list[str]:
    return Path(f"/proc/net/{name}").read_text().splitlines()[1:]


@needs_nginx
def test_the_gate(tmp_path: Path, fedgrain: Callable[..., Any]) -> None:
    federation = Federation(tmp_path, fedgrain, ("museum", "zoo"), CONFIG)
    with federation.network() as network:
        assert listening(federation.link_port) == {"0100007F"}  # 127.0.0.1
        assert federation.operate("apply", federation.deployment) == {
            "registered": ["museum", "zoo"], "unregistered": [], "without_key": [], "gate": True,
        }  # fmt: skip
        museum, zoo = (federation.start_site(network, site) for site in ("museum", "zoo"))
        wait_until(lambda: joined(museum) and joined(zoo), "both sites join")
        outsiders_get_nothing(federation, network)
        a_certificate_opens_what_a_site_needs(federation)
        sites_run_signed_apps_alone(federation, network)
        impostors_stay_out_of_a_run(federation, network)
        a_removed_site_is_out(federation, zoo)
        everything_can_be_renewed(federation, network, museum)
    nothing_left(f"FLWR_HOME={network.home}")
