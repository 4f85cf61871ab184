"""What an IT department installs: units, a wheelhouse with hashes, a list of what is inside."""

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
sys.path.insert(0, str(ROOT / "scripts"))
import offline_install  # noqa: E402
import wheelhouse  # noqa: E402


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_the_units_are_what_systemd_takes(tmp_path):
    binaries = Path(sys.executable).parent
    for unit in DEPLOY.glob("*.service"):
        text = unit.read_text().replace("/opt/fedgrain/bin", str(binaries))
        if shutil.which("nginx") is None:
            text = text.replace("/usr/sbin/nginx", sys.executable)
        (tmp_path / unit.name).write_text(text)
    units = sorted(tmp_path.glob("*.service"))
    assert len(units) == 3
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("unit", sorted(DEPLOY.glob("*.service")), ids=lambda path: path.stem)
def test_a_unit_has_no_rights_it_does_not_need(unit):
    lines = unit.read_text().splitlines()
    for wanted in (
        "User=fedgrain", "NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet=",
        "KillMode=control-group",
    ):  # fmt: skip
        assert wanted in lines
    container = (DEPLOY / "Containerfile").read_text()
    assert "\nUSER nobody" in container and "--require-hashes" in container


def wheel(folder: Path, name: str, version: str) -> Path:
    """A wheel as small as pip takes it."""
    path, info = folder / f"{name}-{version}-py3-none-any.whl", f"{name}-{version}.dist-info"
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: It says one\n"
    about += "Classifier: License :: OSI Approved :: Apache Software License\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", "ONE = 1\n")
        archive.writestr(f"{info}/METADATA", about)
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


@pytest.mark.skipif(not offline_install.can_forbid(), reason="unshare -rn does not work here")
def test_a_wheelhouse_installs_offline_and_refuses_another_file(tmp_path):
    house, place = tmp_path / "house", tmp_path / "installed"
    house.mkdir()
    own, _ = wheel(house, "first_part", "1.0"), wheel(house, "other", "2.5")
    wheels = wheelhouse.describe(house)
    listed = json.loads((house / "sbom.cdx.json").read_text())
    assert (listed["bomFormat"], listed["specVersion"]) == ("CycloneDX", "1.6")
    parts = {part["name"]: part for part in listed["components"]}
    assert parts["other"]["purl"] == "pkg:pypi/other@2.5"
    assert parts["first_part"]["hashes"][0]["content"] == wheels[0].sha256
    assert parts["other"]["licenses"] == [{"license": {"name": "Apache Software License"}}]

    def install() -> subprocess.CompletedProcess[str]:
        return offline_install.install(sys.executable, house, "--target", str(place))

    assert install().returncode == 0 and (place / "first_part.py").exists()
    own.unlink()
    wheel(house, "first_part", "1.0").write_bytes(own.read_bytes() + b"\0")  # altered on the way
    shutil.rmtree(place)
    refused = install()
    assert refused.returncode != 0 and "DO NOT MATCH THE HASHES" in refused.stderr
