"""Make a wheelhouse: everything a machine needs to install fedgrain without a network.

    python scripts/wheelhouse.py OUT [--extras flower,timm]

OUT gets the wheels, ``requirements.txt`` with the SHA-256 of every file, and ``sbom.cdx.json``, a
list of what is inside (CycloneDX 1.6). Where it is copied to:

    pip install --no-index --find-links OUT --require-hashes -r OUT/requirements.txt

Wheels are for the kind of machine and the Python this runs on.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Wheel:
    """One file of the wheelhouse, and what its metadata says."""

    file: str
    sha256: str
    name: str
    version: str
    licence: str
    summary: str

    @property
    def purl(self) -> str:
        """Its name as SBOMs write it."""
        return f"pkg:pypi/{self.name.lower().replace('_', '-')}@{self.version}"


def download(out: Path, extras: str) -> None:
    """Build fedgrain's wheel and fetch the wheels of all that it needs, as constraints.txt says."""
    pip = [sys.executable, "-m", "pip"]
    subprocess.run([*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", out, ROOT], check=True)
    (own,) = out.glob("fedgrain-*.whl")
    wanted = f"fedgrain[{extras}] @ {own.resolve().as_uri()}" if extras else str(own)
    subprocess.run(
        [*pip, "download", "--quiet", "--only-binary=:all:", "--dest", out,
         "--constraint", ROOT / "constraints.txt", wanted],
        check=True,
    )  # fmt: skip


def read_wheel(path: Path) -> Wheel:
    """Read name, version and licence from a wheel's metadata."""
    with zipfile.ZipFile(path) as archive:
        (found,) = [
            name
            for name in archive.namelist()
            if name.count("/") == 1 and name.endswith(".dist-info/METADATA")
        ]
        about = HeaderParser().parsestr(archive.read(found).decode("utf-8"))
    licences = [c for c in about.get_all("Classifier", []) if c.startswith("License ::")]
    licence = about["License-Expression"] or "; ".join(c.rpartition(":: ")[2] for c in licences)
    licence = licence or (about["License"] or "not stated").splitlines()[0]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Wheel(
        path.name, digest, about["Name"], about["Version"], licence, about["Summary"] or ""
    )


def requirements(wheels: list[Wheel]) -> str:
    """Return what to install: every version with its hash."""
    lines = [f"{one.name}=={one.version} --hash=sha256:{one.sha256}" for one in wheels]
    return "\n".join(lines) + "\n"


def sbom(wheels: list[Wheel]) -> dict[str, object]:
    """Return the list of what is inside, as CycloneDX 1.6."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "components": [
            {
                "type": "library",
                "bom-ref": one.purl,
                "name": one.name,
                "version": one.version,
                "description": one.summary,
                "licenses": [{"license": {"name": one.licence}}],
                "purl": one.purl,
                "hashes": [{"alg": "SHA-256", "content": one.sha256}],
            }
            for one in wheels
        ],
    }


def describe(out: Path) -> list[Wheel]:
    """Write the requirements and the SBOM of the wheels in a folder."""
    wheels = sorted(map(read_wheel, out.glob("*.whl")), key=lambda one: one.name.lower())
    (out / "requirements.txt").write_text(requirements(wheels))
    (out / "sbom.cdx.json").write_text(json.dumps(sbom(wheels), indent=2) + "\n")
    return wheels


def main() -> None:
    """Make it and say how to install from it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="a new folder")
    parser.add_argument("--extras", default="flower", help="of fedgrain (default: flower)")
    args = parser.parse_args()
    if args.out.exists():
        sys.exit(f"{args.out}: exists already; choose a new folder")
    args.out.mkdir(parents=True)
    download(args.out, args.extras)
    wheels = describe(args.out)
    size = sum(path.stat().st_size for path in args.out.glob("*.whl"))
    print(f"{len(wheels)} wheels, {size / 1e6:.0f} MB; on the other machine:")
    print(f"pip install --no-index --find-links {args.out} --require-hashes "
          f"-r {args.out}/requirements.txt")  # fmt: skip


if __name__ == "__main__":
    main()
