"""What keeping a table up to date costs at least, from the settings alone."""

from __future__ import annotations

from typing import Final

from replicator_sdk.discovery.assessment import Finding, Severity
from replicator_target_bigquery.config import BigQueryConfig, Mode

_DAY: Final = 86400.0
_LEAST_MB: Final = 10  # that BigQuery bills for each table that a query names
_TABLES: Final = 3  # of a merge: the table, its staging or intermediate table, and the commit log


def merge_cost(config: BigQueryConfig) -> list[Finding]:
    """How often a busy table is merged, and what that bills at least; no finding where no interval limits it."""
    seconds = config.merge_interval_ms / 1000 if config.mode is Mode.MERGE_FLUSH else config.load_interval
    if config.mode is Mode.CDC or seconds <= 0 or (config.mode is Mode.MERGE_FLUSH and not config.merges):
        return []
    merges, least = int(_DAY / seconds), _TABLES * _LEAST_MB
    setting = "mergeIntervalMs" if config.mode is Mode.MERGE_FLUSH else "loadInterval"
    return [
        Finding(
            "merge_cost",
            Severity.INFO,
            f"a table that changes all the time is merged about {merges:,} times a day",
            f"on-demand billing counts at least {_LEAST_MB} MB for each of the {_TABLES} tables that a merge names: "
            f"{merges * least / 1000:,.1f} GB a day for each such table, and more where a merge reads more",
            f"raise `{setting}` to merge less often, or pay for slots instead of bytes",
        )
    ]
