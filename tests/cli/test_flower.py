"""``fedgrain flower init`` and ``check`` as a user types them."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedgrain[flower]'")

from PIL import Image

from fedgrain.deployment.app import App
from fedgrain.deployment.certificates import write_certificates, write_key_pair

TREE = "parent,child\nr,a\nr,b\nr,c\na,a1\na,a2\na,a3\nb,b1\nb,b2\n"
Run = Callable[..., Any]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "tree.csv").write_text(TREE)
    return tmp_path


def manifest(place: Path, labels: list[str]) -> Path:
    (place / "site").mkdir()
    for number in range(len(labels)):
        pixels = np.full((16, 16, 3), number, np.uint8)
        Image.fromarray(pixels).save(place / "site" / f"{number}.png")
    rows = [f"{number}.png,{label}" for number, label in enumerate(labels)]
    path = place / "site" / "images.csv"
    path.write_text("path,label\n" + "\n".join(rows) + "\n")
    return path


def init(fedgrain: Run, place: Path, *options: object) -> Any:
    return fedgrain(
        "flower", "init", place / "out", "--taxonomy", place / "tree.csv",
        "--site", "museum", "--site", "zoo", *options,
    )  # fmt: skip


def test_init_writes_an_app_and_keeps_secrets_beside_it(fedgrain: Run, place: Path) -> None:
    done = init(fedgrain, place, "--keys", "--host", "10.1.2.3", "--count-rounding", 50, "--json")
    assert done.returncode == 0, done.stderr
    out = place / "out"
    assert json.loads(done.stdout) == {"folder": str(out), "sites": ["museum", "zoo"]}
    app = App.read(out / "app" / "fedgrain_app")
    assert app.taxonomy is not None and len(app.taxonomy) == 9
    chosen = (app.config.dataset, app.config.validation, app.config.knowledge)
    assert chosen == ("folder", "clients", "inferred")
    assert (app.config.clients, app.config.join_ratio) == (None, 1.0)  # both train in every round
    assert app.config.supervision == "learned"  # of inferred knowledge
    assert app.config.client_time_limit == 600.0  # a site that hangs does not stop the others
    assert "count-rounding = 50" in (out / "app" / "pyproject.toml").read_text()
    secrets = [out / "operator" / "ca.key", out / "certificates" / "server.key"]
    secrets += [out / "operator" / "signing"]
    secrets += [out / "sites" / "museum" / "museum", out / "sites" / "zoo" / "zoo"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in secrets] == [0o600] * 5
    in_app = [path for path in (out / "app").rglob("*") if path.is_file()]
    assert not any(b"PRIVATE KEY" in path.read_bytes() for path in in_app)
    commands = (out / "COMMANDS.md").read_text()
    assert (
        commands.count("export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1") == 4
    )  # the server, the operator and two sites
    # the SuperLink is on loopback whatever the host; the gate alone is reached from outside
    assert "--host 127.0.0.1 --port 8001" in commands and "0.0.0.0" not in commands
    assert commands.count("flower join --server 10.1.2.3:8000") == 2
    listens = [
        line.split()[1]
        for line in (out / "nginx.conf").read_text().splitlines()
        if line.strip().startswith("listen ")
    ]
    assert listens == ["0.0.0.0:8000", "127.0.0.1:8002"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--site", "../up"], "site '../up': write a name of letters"),
        (["--site", "zoo"], "give every site once"),
        (["--count-rounding", "0"], "count rounding is 0, but must be at least 1"),
        (["--port", "99999"], "port 99999 must lie between 1 and 65535"),
        (["--wait-seconds", "-1"], "wait seconds is -1"),
        (["--host", "a b"], "host 'a b' is neither a name nor an address"),
        (["--config", "none.toml"], "none.toml: No such file or directory"),
        (["--dp-clip", "1"], "needs both, a noise multiplier and the norm to clip at"),
        (["--strategy", "FedBest"], "there is no strategy 'FedBest'; choose one of ours, FedAvgM"),
    ],
)
def test_bad_wishes_are_one_sentence_and_leave_nothing(
    fedgrain: Run, place: Path, options: list[str], sentence: str
) -> None:
    done = init(fedgrain, place, *options)
    assert done.returncode == 2
    assert sentence in done.stderr and done.stderr.count("\n") == 1
    assert sorted(path.name for path in place.iterdir()) == ["tree.csv"]


def test_an_existing_folder_is_left_alone(fedgrain: Run, place: Path) -> None:
    (place / "out").mkdir()
    (place / "out" / "mine").write_text("precious")
    done = init(fedgrain, place)
    assert done.returncode == 2 and "exists already" in done.stderr
    assert [path.name for path in (place / "out").iterdir()] == ["mine"]


def check(fedgrain: Run, place: Path, images: Path, *options: object) -> Any:
    app = place / "out" / "app"
    named = () if "--site" in options else ("--site", "museum")
    return fedgrain("flower", "check", "--app", app, "--images", images, *named, *options)


def test_check_counts_and_says_what_leaves(fedgrain: Run, place: Path) -> None:
    init(fedgrain, place)
    images = manifest(place, ["a1", "a2", "a", "b1", "c", "r"] * 5)
    done = check(fedgrain, place, images, "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert all(finding["good"] for finding in said["findings"])
    assert said["counted"]["images"] == 30
    assert said["counted"]["per_depth"] == {"0": 5, "1": 10, "2": 15}
    # a fifth of each label validates: 4 of 5 are left to train on, labels that stop there as well
    assert said["counted"]["told"]["per_branch"] == {"r": 24, "a": 12, "b": 4}
    assert any("histogram" in line for line in said["leaves"])
    assert "images" in said["stays"] and "names of files" in said["stays"]
    rounded = check(fedgrain, place, images, "--json", "--count-rounding", 10)
    told = json.loads(rounded.stdout)["counted"]["told"]["per_branch"]
    assert told == {"r": 20, "a": 10, "b": 0}


def test_noise_has_its_price_told_and_all_else_stays(fedgrain: Run, place: Path) -> None:
    pytest.importorskip("dp_accounting", reason="not installed: pip install 'fedgrain[dp]'")
    (place / "config.toml").write_text("rounds = 4\n")
    noise = ["--config", place / "config.toml", "--dp-noise-multiplier", 4, "--dp-clip", 0.5]
    done = init(fedgrain, place, *noise)
    assert done.returncode == 0, done.stderr
    # four releases at twice the sensitivity are one at the sensitivity itself
    assert "each site sends at most 4 updates if no round is repeated: an epsilon of 4.38" in (
        done.stdout
    )
    commands = (place / "out" / "COMMANDS.md").read_text()
    assert "fedgrain[dp,flower]" in commands
    assert 'images="/path/to/images.csv" ledger="/path/to/zoo-releases.jsonl"' in commands
    images = manifest(place, ["a1", "a2", "a", "b1", "c", "r"] * 5)
    said = json.loads(check(fedgrain, place, images, "--json").stdout)
    assert "told" not in said["counted"] and said["counted"]["withheld"]["per_branch"]["a"] == 12
    assert "clipped to a norm of 0.5 and with noise of a deviation of 2" in said["leaves"][0]
    assert not any("histogram" in line for line in said["leaves"])


def test_check_says_what_leaves_under_a_policy_and_goes_on_if_it_cannot_be_read(
    fedgrain: Run, place: Path
) -> None:
    init(fedgrain, place)
    images, policy = manifest(place, ["a1", "a2", "a", "b1", "c"] * 5), place / "site.toml"
    policy.write_text("[leaves]\nlosses = false\ncount_rounding = 50\n")
    told = json.loads(check(fedgrain, place, images, "--policy", policy, "--json").stdout)
    leaves = "\n".join(told["leaves"])
    assert "mean loss" not in leaves and "sums of losses" not in leaves
    assert "multiples of 50" in leaves
    policy.write_text("[leaves]\nloss = false\n")
    done = check(fedgrain, place, images, "--policy", policy, "--json")
    bad = [one["subject"] for one in json.loads(done.stdout)["findings"] if not one["good"]]
    assert done.returncode == 2 and bad == ["policy"]  # and the rest was checked


def test_check_tells_a_wrong_label_with_its_line_and_what_is_near(
    fedgrain: Run, place: Path
) -> None:
    init(fedgrain, place)
    images = manifest(place, ["a1", "a22"])
    done = check(fedgrain, place, images)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "BAD   labels" in done.stdout and "line 3" in done.stdout
    assert "did you mean 'a2'" in done.stdout
    assert "1 of 2 checks failed" in done.stderr


def test_check_tells_of_images_that_are_not_there(fedgrain: Run, place: Path) -> None:
    init(fedgrain, place)
    images = manifest(place, ["a1", "a2"])
    (place / "site" / "1.png").unlink()
    done = check(fedgrain, place, images)
    assert done.returncode == 2
    assert "BAD   images" in done.stdout and "is not there" in done.stdout


@pytest.fixture
def secure_server(place: Path) -> Iterator[int]:
    """Speak TLS with a certificate of our own, and nothing else."""
    write_certificates(place / "certificates", ["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made = place / "certificates"
    context.load_cert_chain(made / "server.crt", made / "server.key")
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                plain, _ = listener.accept()
            except OSError:
                return
            plain.settimeout(10)
            try:
                with plain, context.wrap_socket(plain, server_side=True) as secure:
                    secure.recv(1)
            except OSError:
                continue

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield int(listener.getsockname()[1])
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(10)


def findings(done: Any) -> dict[str, dict[str, Any]]:
    return {finding["subject"]: finding for finding in json.loads(done.stdout)["findings"]}


def test_check_of_connection_certificate_and_key(
    fedgrain: Run, place: Path, secure_server: int
) -> None:
    init(fedgrain, place)
    images = manifest(place, ["a1", "a2", "b1", "b2", "c"] * 4)
    right, server = place / "certificates" / "ca.crt", f"127.0.0.1:{secure_server}"
    good = check(fedgrain, place, images, "--json", "--server", server, "--certificate", right)
    assert good.returncode == 0, good.stdout
    assert "trusted, until" in findings(good)["certificate"]["text"]

    write_certificates(place / "other", ["127.0.0.1"])
    wrong = place / "other" / "ca.crt"
    bad = check(fedgrain, place, images, "--json", "--server", server, "--certificate", wrong)
    assert bad.returncode == 2 and findings(bad)["connection"]["good"]
    assert "is not signed by" in findings(bad)["certificate"]["text"]

    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{unused.getsockname()[1]}"
        bad = check(fedgrain, place, images, "--json", "--server", nobody, "--certificate", right)
    assert "nothing answers at" in findings(bad)["connection"]["text"]

    other = check(fedgrain, place, images, "--site", "casino")
    assert other.returncode == 2 and "'casino' is no site of the app" in other.stdout

    write_key_pair(place / "key")
    shutil.copyfile(place / "key", place / "open-key")
    (place / "open-key").chmod(0o644)
    bad = check(
        fedgrain, place, images, "--json", "--server", server, "--certificate", right,
        "--key", place / "open-key",
    )  # fmt: skip
    assert "chmod 600" in findings(bad)["key"]["text"] and "registration" not in findings(bad)
