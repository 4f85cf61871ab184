"""Stop when validation no longer improves (method, section 10: patience 10, min delta 1e-4)."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class EarlyStopping:
    """The best value so far and the patience left; a new value gives a new object.

    >>> history = EarlyStopping(patience=2).after(0.5).after(0.4)
    >>> history.best, history.improved, history.stopped
    (0.5, False, False)
    >>> history.after(0.5).stopped
    True
    """

    patience: int = 10
    min_delta: float = 1e-4
    best: float = -1.0
    waited: int = 0  # rounds since the best one
    seen: int = 0
    measure: str = "weighted_hf"  # of a ValidationScore; older runs stopped by hf

    def after(self, value: float) -> EarlyStopping:
        """Return the history after one more evaluation."""
        seen = replace(self, seen=self.seen + 1)
        if value > self.best + self.min_delta or self.seen == 0:
            return replace(seen, best=value, waited=0)
        return replace(seen, waited=self.waited + 1)

    def without_value(self) -> EarlyStopping:
        """Return the history after a round without an evaluation: it counts as waiting."""
        return replace(self, waited=self.waited + 1)

    @property
    def improved(self) -> bool:
        """Whether the last evaluation was the best so far."""
        return self.seen > 0 and self.waited == 0

    @property
    def stopped(self) -> bool:
        """Whether patience has run out."""
        return self.waited >= self.patience
