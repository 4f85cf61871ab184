"""The leaderboard of a track: every packed result beside the best, with its cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev

from fedgrain.benchmark.submission import Submission, read_submission
from fedgrain.errors import BenchmarkError
from fedgrain.studies.methods import is_bound
from fedgrain.tables.intervals import estimate, incomplete_beta
from fedgrain.tables.study_tables import Cell, Column, Table, score_cell


def leaderboard_tables(places: Sequence[str | Path]) -> list[Table]:
    """Return a table per track and alpha of packed results, or of folders of them; best first."""
    found: dict[tuple[str, float], dict[str, Submission]] = {}
    for path in _files(places):
        one = read_submission(path)
        for alpha in one.track.alphas:
            of_track = found.setdefault((one.track.name, alpha), {})
            if one.method in of_track:
                raise BenchmarkError(
                    f"{path}: a second result of {one.method} on track {one.track.name}; keep one"
                )
            of_track[one.method] = one
    return [_table(track, alpha, found[track, alpha]) for track, alpha in sorted(found, key=_place)]


def _place(key: tuple[str, float]) -> tuple[str, float]:
    return key[0], -key[1]


def _files(places: Sequence[str | Path]) -> list[Path]:
    files = []
    for place in map(Path, places):
        files += sorted(place.rglob("*.zip")) if place.is_dir() else [place]
    if not files:
        raise BenchmarkError(
            f"{', '.join(map(str, places))}: no packed results (*.zip) here; make one with "
            "fedgrain benchmark submit"
        )
    return files


def _table(track: str, alpha: float, by_method: dict[str, Submission]) -> Table:
    """Return a row per method; bounds are shown, but are not the best."""
    means = {m: fmean(one.by_seed(alpha).values()) for m, one in by_method.items()}
    competing = [method for method in means if not is_bound(method)]
    best = max(competing or means, key=means.__getitem__)
    version = by_method[best].track.version
    rows = []
    for method in sorted(means, key=means.__getitem__, reverse=True):
        one = by_method[method]
        hf, top = one.by_seed(alpha), by_method[best].by_seed(alpha)
        differences = [hf[seed] - top[seed] for seed in hf]
        own = method != best
        seeds = len(hf)
        notes = ["bound"] * is_bound(method) + ["native arithmetic"] * (not one.portable)
        rows.append((
            f"{method} ({', '.join(notes)})" if notes else method,
            (
                score_cell(estimate(list(hf.values()))),
                score_cell(estimate(list(one.by_seed(alpha, "accuracy").values()))),
                score_cell(estimate(differences)) if own else None,
                _cell(paired_p(differences)) if own else None,
                _cell(sum(one.by_seed(alpha, "core_seconds").values()) / 3600 / seeds),
                _cell(sum(one.by_seed(alpha, "bytes_sent").values()) / 1e6 / seeds),
            ),
        ))  # fmt: skip
    columns = (
        Column("", "HF"), Column("", "leaf accuracy"), Column("", "HF - best", signed=True),
        Column("", "p"), Column("", "core-hours"), Column("", "MB sent", digits=1),
    )  # fmt: skip
    return Table(f"{track}, alpha {alpha:g} (benchmark {version})", "method", columns, tuple(rows))


def _cell(value: float | None) -> Cell | None:
    return None if value is None else Cell(value)


def paired_p(differences: Sequence[float]) -> float | None:
    """Return the two-sided p-value of a paired t-test; None with fewer than two pairs.

    >>> round(paired_p([0.1, 0.2, 0.3]), 4)
    0.0742
    """
    count = len(differences)
    if count < 2:
        return None
    spread = stdev(differences)
    if spread == 0:
        return 1.0 if differences[0] == 0 else 0.0
    t = fmean(differences) * math.sqrt(count) / spread
    return incomplete_beta((count - 1) / 2, 0.5, (count - 1) / (count - 1 + t * t))
