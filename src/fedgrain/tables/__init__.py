"""What the runs of a study say together: means with intervals, differences, tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedgrain.lazy import lazy_names

__all__ = [
    "Results",
    "Table",
    "format_tables",
    "read_results",
    "score_tables",
]

if TYPE_CHECKING:
    from fedgrain.tables.collect import Results, read_results
    from fedgrain.tables.study_tables import Table, score_tables
    from fedgrain.tables.table_formats import format_tables
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "Results": "collect",
            "Table": "study_tables",
            "format_tables": "table_formats",
            "read_results": "collect",
            "score_tables": "study_tables",
        },
    )
