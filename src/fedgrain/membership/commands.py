"""COMMANDS.md: what to type on the server and at each site."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fedgrain.deployment.key_record import Record
from fedgrain.membership.gate import FILE as GATE
from fedgrain.membership.signing import APP_SPEC

SUPERLINK = "fedgrain"  # the name under which Flower's commands know our server
_SITE_PORT = 9094  # of a SuperNode, on loopback; sites on one machine need different ones
QUIET = "export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1"


@dataclass(frozen=True)
class Typed:
    """All commands of a federation."""

    folder: Path  # absolute
    record: Record
    real: bool = True  # the sites have images of their own
    private: bool = False  # they add noise to what they send
    code: tuple[str, ...] = ()  # module:callable that the config names

    @property
    def server_environment(self) -> Mapping[str, str]:
        """The SuperLink's environment: its app comes from the gate, which acts as the hub."""
        return {
            "FLWR_SUPERGRID_API_URL": f"https://127.0.0.1:{self.record.hub_port}",
            "REQUESTS_CA_BUNDLE": str(self.folder / "certificates" / "ca.crt"),
            "NO_PROXY": "127.0.0.1",
        }

    def server(self) -> list[str]:
        """Return the command that starts the SuperLink, on loopback."""
        certificates = self.folder / "certificates"
        return [
            "env", *(f"{name}={value}" for name, value in self.server_environment.items()),
            "flower-superlink",
            "--ssl-ca-certfile", str(certificates / "ca.crt"),
            "--ssl-certfile", str(certificates / "server.crt"),
            "--ssl-keyfile", str(certificates / "server.key"),
            "--enable-supernode-auth",
            "--database", str(self.folder / "home" / "superlink.db"),
            "--host", "127.0.0.1",
            "--port", str(self.record.link_port),
            "--disable-runtime-dependency-installation",
        ]  # fmt: skip

    def gate(self) -> list[str]:
        """Return the command that starts the gate."""
        return ["nginx", "-e", "stderr", "-p", str(self.folder), "-c", GATE]

    def apply(self) -> list[str]:
        """Return the command that updates the running server from the record."""
        return ["fedgrain", "flower", "apply", str(self.folder)]

    def run(self) -> list[str]:
        """Return the command that starts or resumes the rounds."""
        return ["flwr", "run", APP_SPEC, SUPERLINK, "--stream"]

    def settings(self, site: str) -> str:
        """Return a site's own settings."""
        number = list(self.record.members).index(site)
        own = f'site="{site}" images="/path/to/images.csv"'
        ledger = f' ledger="/path/to/{site}-releases.jsonl"' if self.private else ""
        return (own if self.real else f"partition-id={number}") + ledger

    def check(self, site: str) -> list[str]:
        """Return the command with which a site checks itself."""
        return [
            "fedgrain", "flower", "check", "--app", "app", "--images", "/path/to/images.csv",
            "--site", site, "--server", self.record.address, "--key", site,
        ]  # fmt: skip

    def join(self, site: str) -> list[str]:
        """Return the command that starts a site."""
        return [
            "fedgrain", "flower", "join", "--server", self.record.address, "--key", site,
            "--port", str(_SITE_PORT), "--node-config", self.settings(site),
        ]  # fmt: skip

    def text(self) -> str:
        """Return the page."""
        package = "fedgrain[dp,flower]" if self.private else "fedgrain[flower]"
        home = f"export FLWR_HOME={shlex.quote(str(self.folder / 'home'))}"
        parts = [
            "# Start this federation",
            f"On every machine: `pip install '{package}'`; on the server also nginx (Debian and "
            "Ubuntu: `apt install nginx-light`; it need not run as a service). Flower reports "
            "usage and asks for updates unless the first line of each block below is typed.",
            "## The server",
            "Everything runs as an ordinary user, if possible on a machine without other users: "
            "everyone with an account there can reach the SuperLink on loopback. Open only port "
            f"{self.record.port} in the firewall.",
            _block(QUIET, home, shlex.join(self.server())),
            "In a second terminal, start the gate, which lets only the sites through:",
            _block(shlex.join(self.gate())),
            "Send each site its folder in `sites` over a secure channel, and the folder `app` for "
            "review; then delete private keys in `sites`, if there are any. A site without a key "
            "makes one with `fedgrain flower key NAME` and sends NAME.pub: "
            f"`fedgrain flower add {shlex.quote(str(self.folder))} NAME NAME.pub`. Keep the folder "
            "`operator` off the server if you can: only `add`, `renew` and `sign` need it.",
            "In a third terminal, let the sites in (again after every add, remove and renew):",
            _block(QUIET, home, shlex.join(self.apply())),
            "When the sites below are started, start the rounds. After an interruption, the same "
            "command resumes from the last complete round:",
            _block(shlex.join(self.run())),
        ]
        for site in self.record.members:
            checks = [shlex.join(self.check(site))] if self.real else []
            parts += [
                f"## Site {site}",
                f"In its folder `sites/{site}`, with its private key `{site}`"
                + (", and `app` copied into it. Check, then join:" if self.real else ":"),
                _block(QUIET, *checks, shlex.join(self.join(site))),
            ]
        if self.code:
            parts.append(
                f"The config names code that every machine must have installed: "
                f"{', '.join(f'`{name}`' for name in self.code)}. A site runs it only if its owner "
                "adds `--trust-code` to `fedgrain flower join`."
            )
        parts.append(
            "Several sites on one machine need different numbers for `--port`. What a site may do, "
            "its owner writes into `site.toml` next to the key; what came and left is in "
            "`record.jsonl` there: `fedgrain flower audit record.jsonl`."
        )
        return "\n\n".join(parts) + "\n"


def _block(*lines: str) -> str:
    return "\n".join(["```sh", *lines, "```"])
