"""Many runs: the grid, the search of learning rates, the execution, the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedgrain.lazy import lazy_names

__all__ = [
    "Results",
    "Study",
    "Table",
    "dask_workers",
    "format_tables",
    "local_workers",
    "preset",
    "read_results",
    "read_study",
    "run_study",
    "score_tables",
]

if TYPE_CHECKING:
    from fedgrain.studies.collect import Results, read_results
    from fedgrain.studies.execute import run_study
    from fedgrain.studies.executors import dask_workers, local_workers
    from fedgrain.studies.presets import preset
    from fedgrain.studies.study import Study
    from fedgrain.studies.study_file import read_study
    from fedgrain.studies.table_formats import format_tables
    from fedgrain.studies.tables import Table, score_tables
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "Results": "collect",
            "Study": "study",
            "Table": "tables",
            "dask_workers": "executors",
            "format_tables": "table_formats",
            "local_workers": "executors",
            "preset": "presets",
            "read_results": "collect",
            "read_study": "study_file",
            "run_study": "execute",
            "score_tables": "tables",
        },
    )
