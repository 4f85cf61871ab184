"""The cost of differential privacy: the epsilon of the updates a site has sent.

A site adds Gaussian noise to its clipped update (:mod:`fedgrain.sites.noised_updates`). The
unit is a site's whole data: whatever it holds, its clipped update lies in a ball of radius
``clip``, so any two data sets give updates at most ``2 clip`` apart. That is the sensitivity, and
the noise's deviation of ``noise_multiplier * clip`` is half the noise multiplier times it. n
releases with the same noise, each of which may depend on the earlier ones, equal exactly one with a
deviation smaller by sqrt(n) (Dong et al. 2022, Gaussian differential privacy). Sampling clients
does not reduce epsilon: the server draws them, so it knows which ones take part.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

from fedgrain.errors import DeploymentError
from fedgrain.policy.site_policy import DELTA

_UNIT = "all data of one site, replaced by any other (local differential privacy)"
_MECHANISM = "Gaussian noise on the clipped update of every message (Flower's LocalDpMod)"


@dataclass(frozen=True)
class Privacy:
    """How sites clip updates and add noise; the deviation is ``noise_multiplier * clip``."""

    noise_multiplier: float
    clip: float
    delta: float = DELTA

    def __post_init__(self) -> None:
        for name in ("noise_multiplier", "clip"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise DeploymentError(f"dp {name} is {value:g}, but must be more than 0 and finite")
        if not 0 < self.delta < 1:
            raise DeploymentError(f"dp delta is {self.delta:g}, but must lie between 0 and 1")

    @classmethod
    def given(
        cls, noise_multiplier: float | None, clip: float | None, delta: float | None
    ) -> Privacy | None:
        """Return the settings a user asked for: noise and clip together, or None."""
        if noise_multiplier is None and clip is None:
            if delta is not None:
                raise DeploymentError("dp delta alone adds no noise; also give a noise multiplier")
            return None
        if noise_multiplier is None or clip is None:
            raise DeploymentError(
                "differential privacy needs both, a noise multiplier and the norm to clip at"
            )
        return cls(noise_multiplier, clip, DELTA if delta is None else delta)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Privacy | None:
        """Read the app's settings; None without noise."""
        noise, clip = (float(settings.get(key, 0)) for key in ("dp-noise-multiplier", "dp-clip"))
        if not noise and not clip:
            return None
        return cls(noise, clip, float(settings.get("dp-delta", DELTA)))

    def epsilon(self, releases: int) -> float:
        """Return the epsilon, at ``delta``, of a number of releases of one site."""
        if not releases:
            return 0.0
        need_accounting()
        from dp_accounting import get_epsilon_gaussian

        ratio = self.noise_multiplier / 2  # of the noise to the sensitivity
        try:
            return float(get_epsilon_gaussian(ratio / math.sqrt(releases), self.delta))
        except (RuntimeError, ArithmeticError):  # no root is found if there is almost no noise
            raise DeploymentError(
                f"dp noise multiplier {self.noise_multiplier:g} is too small for an epsilon to be "
                "found; give a larger one"
            ) from None

    def report(self, releases: Mapping[str, int]) -> dict[str, Any]:
        """Return the entries of ``result.json``: the cost of the site that sent most."""
        most = max(releases.values(), default=0)
        return {
            "epsilon": self.epsilon(most),
            **asdict(self),
            "noise_to_sensitivity": self.noise_multiplier / 2,
            "releases": most,
            "releases_by_site": dict(releases),
            "mechanism": _MECHANISM,
            "unit": _UNIT,
        }


def need_accounting() -> None:
    """Raise an error that says how to install the extra if it is missing."""
    if find_spec("dp_accounting") is None:
        raise DeploymentError(
            "differential privacy needs its accounting; install it with: "
            "pip install 'fedgrain[dp,flower]'"
        )
