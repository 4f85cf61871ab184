"""Install a wheelhouse into an empty environment with the network forbidden, and try it.

    python scripts/offline_install.py WHEELHOUSE ENVIRONMENT

The environment must not exist yet. Everything after it was made runs in a network namespace without
any interface (``unshare -rn``), so whatever asks the network for something fails.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import venv
from pathlib import Path

FORBIDDEN = ["unshare", "-rn"]  # a namespace of one's own, without a network


def can_forbid() -> bool:
    """Return whether this machine lets us forbid the network."""
    try:
        return subprocess.run([*FORBIDDEN, "true"], capture_output=True).returncode == 0
    except OSError:
        return False


def install(python: Path | str, house: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Install all of a wheelhouse, as docs/it.md says, without a network."""
    command = [
        *FORBIDDEN, str(python), "-m", "pip", "install", "--isolated", "--no-index",
        "--find-links", str(house), "--require-hashes", "-r", str(house / "requirements.txt"),
    ]  # fmt: skip
    return subprocess.run([*command, *options], capture_output=True, text=True)


def main() -> None:
    """Install, try, and print how long it took."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("wheelhouse", type=Path)
    parser.add_argument("environment", type=Path)
    args = parser.parse_args()
    if args.environment.exists():
        parser.error(f"{args.environment} exists already")
    if not can_forbid():
        parser.error(f"{' '.join(FORBIDDEN)} does not work here, so the network stays open")
    began = time.monotonic()
    venv.create(args.environment, with_pip=True)
    done = install(args.environment / "bin" / "python", args.wheelhouse)
    print(done.stdout.splitlines()[-1] if done.returncode == 0 else done.stderr)
    if done.returncode:
        sys.exit(1)
    for words in (["--version"], ["flower", "--help"]):
        command = [*FORBIDDEN, args.environment / "bin" / "fedgrain", *words]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        print(f"fedgrain {' '.join(words)}: {told.splitlines()[0]}")
    print(f"installed without a network in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
