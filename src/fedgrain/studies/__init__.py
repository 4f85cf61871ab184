"""Many runs: the grid, the search of learning rates, the execution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedgrain.lazy import lazy_names

__all__ = [
    "Study",
    "dask_workers",
    "local_workers",
    "preset",
    "read_study",
    "run_study",
]

if TYPE_CHECKING:
    from fedgrain.studies.execute import run_study
    from fedgrain.studies.executors import dask_workers, local_workers
    from fedgrain.studies.presets import preset
    from fedgrain.studies.study import Study
    from fedgrain.studies.study_file import read_study
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "Study": "study",
            "dask_workers": "executors",
            "local_workers": "executors",
            "preset": "presets",
            "read_study": "study_file",
            "run_study": "execute",
        },
    )
