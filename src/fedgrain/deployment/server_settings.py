"""The settings of a federation besides its config; a resumed run must keep them."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedgrain.checked_json import read_checked_json, write_checked_json
from fedgrain.deployment.privacy import Privacy
from fedgrain.errors import DeploymentError, FedgrainError, RunError
from fedgrain.parsing import parse_json
from fedgrain.runs.run_folder import RunFolder


@dataclass(frozen=True)
class Operation:
    """The server's settings, and what sites do with what they send."""

    sites: Sequence[str]
    run_folder: Path
    wait_seconds: int = 600
    count_rounding: int = 1
    strategy: str = "ours"
    privacy: Privacy | None = None
    most_samples: int | None = None  # a site may claim; None: derived from the other sites
    record: Path | None = None  # which key belongs to which name; None lets everyone in

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Operation:
        """Read the app's settings as Flower passes them."""
        try:
            return cls(
                site_names(str(settings["sites"])),
                Path(str(settings["run-folder"])),
                int(settings["wait-seconds"]),
                int(settings["count-rounding"]),
                str(settings["strategy"]),
                Privacy.of(settings),
                int(settings.get("most-samples", 0)) or None,
                Path(str(settings["record"])) if settings.get("record") else None,
            )
        except FedgrainError:
            raise
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise DeploymentError(
                f"the settings of the app are damaged ({type(error).__name__}: {error}); make it "
                "again with fedgrain flower init"
            ) from None

    @property
    def deciding(self) -> dict[str, Any]:
        """The settings that affect the weights of a run, or that its sites were promised."""
        return {
            "sites": list(self.sites),
            "strategy": self.strategy,
            "count rounding": self.count_rounding,
            "differential privacy": asdict(self.privacy) if self.privacy else None,
        }


class StartRecord:
    """The file in a run folder with the settings the run started with, and its name."""

    def __init__(self, place: RunFolder) -> None:
        self.place, self.path = place, place.path / "operation.json"

    def check(self, operation: Operation) -> None:
        """Refuse to resume with other settings than the run started with."""
        if not self.path.exists():
            return
        started = read_checked_json(self.path)
        for name, value in operation.deciding.items():
            if (then := started.get(name)) != value:
                raise RunError(
                    f"{self.place.path}: the run was started with {name} {json.dumps(then)}, "
                    f"not {json.dumps(value)}; use the same or choose another run folder"
                )

    def name(self, operation: Operation) -> str:
        """Return the name of the run in the sites' ledgers; a new run gets one."""
        if not self.path.exists():
            write_checked_json(self.path, {**operation.deciding, "run": secrets.token_hex(8)})
        return str(read_checked_json(self.path)["run"])


def site_names(text: str) -> list[str]:
    """Read the app's list of sites, which its settings hold as JSON."""
    names = parse_json(text, "sites", DeploymentError)
    if not isinstance(names, list) or len({str(name) for name in names}) < len(names):
        raise DeploymentError(f"sites is {text}, but must be a JSON list of different names")
    return [str(name) for name in names]
