"""All metrics that a run shows: names, types, labels and meanings, as `docs/metrics.md` has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal

OTHER: Final = "__other__"
"""The table label of all tables beyond the limit."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        name: As Prometheus has it.
        kind: Its type; a summary has a count and a sum of seconds.
        labels: Besides `pipeline`. `table` comes first.
        meaning: One sentence, also its help text.
        other: The value of `__other__` from those of its tables.
    """

    name: str
    kind: Literal["counter", "gauge", "summary"]
    labels: tuple[str, ...]
    meaning: str
    other: Callable[[Iterable[float]], float] = sum


METRICS: Final = (
    Metric("replicator_build_info", "gauge", ("version",), "Always 1; the label is the release that runs."),
    Metric(
        "replicator_shown_timestamp_seconds",
        "gauge",
        (),
        "When these values were true, in seconds since 1970: those in a file that no run replaces any more grow old.",
    ),
    Metric("replicator_phase", "gauge", ("phase",), "1 for what the run is doing, 0 for the other phases."),
    Metric(
        "replicator_failing",
        "gauge",
        (),
        "1 while the run as a whole fails (source, target or state do not answer, say) or has failed, else 0.",
    ),
    Metric(
        "replicator_lag_seconds",
        "gauge",
        (),
        "Age of the oldest change that is not durable at the target; missing while it is not known.",
    ),
    Metric(
        "replicator_table_lag_seconds",
        "gauge",
        ("table",),
        "The same of one table. `__other__` has the largest of its tables.",
        max,
    ),
    Metric(
        "replicator_read_lag_seconds",
        "gauge",
        (),
        "The part of it that reading is late; the rest is the time from reading to the target's commit.",
    ),
    Metric(
        "replicator_source_silent_seconds",
        "gauge",
        (),
        "Time since the source answered last; it is asked every five seconds. Missing where it cannot be asked.",
    ),
    Metric(
        "replicator_source_clock_ahead_seconds",
        "gauge",
        (),
        "By how much the source's clock is ahead of the run's; lags are corrected by it.",
    ),
    Metric("replicator_source_waiting_bytes", "gauge", (), "Bytes of the source's log after the saved offset."),
    Metric("replicator_source_waiting_changes", "gauge", (), "Changes or records of the source's log after it."),
    Metric("replicator_source_held_bytes", "gauge", (), "Bytes of log that the source keeps for this replicator only."),
    Metric(
        "replicator_source_held_limit_bytes",
        "gauge",
        (),
        "At so many the source gives them up, and tables must be copied again; missing where there is no limit.",
    ),
    Metric(
        "replicator_source_retention_seconds",
        "gauge",
        (),
        "How long the source keeps log, whoever needs it: the shortest of its topics or binlogs, or that of the ones that end first; missing where it keeps it for ever.",
    ),
    Metric(
        "replicator_source_seconds_left",
        "gauge",
        (),
        "Time until the source gives up log that is needed, by its retention and by how it has grown in the last ten minutes; 0 when it has, missing while it does not grow towards a limit. It falls while the source does not answer.",
    ),
    Metric(
        "replicator_source_late_seconds",
        "gauge",
        (),
        "How late the source itself is, where it is a copy of another one (a change archive); a lag is not below it.",
    ),
    Metric(
        "replicator_table_state",
        "gauge",
        ("table", "state"),
        "1 for the state that the table is in, 0 for the others. `__other__` has the number of tables in each state.",
    ),
    Metric(
        "replicator_changes_total",
        "counter",
        ("table", "op"),
        "Changes of the source's log that are durable at the target; `op` is insert, update or delete.",
    ),
    Metric("replicator_snapshot_rows_total", "counter", ("table",), "Rows that copies of the table have written."),
    Metric("replicator_ddl_total", "counter", ("table",), "Changes of structure that were applied at the target."),
    Metric(
        "replicator_failures_total",
        "counter",
        ("table", "code"),
        "How often changes or rows could not be replicated, by the error's code; `table` is empty where an error is not of one table.",
    ),
    Metric(
        "replicator_retries_total",
        "counter",
        ("table",),
        "How often that is tried again after a wait; `table` is empty for the run as a whole.",
    ),
    Metric(
        "replicator_snapshot_progress_ratio",
        "gauge",
        ("table",),
        "How much of the table is copied, 0 to 1; missing while it is not being copied. `__other__` has the smallest.",
        min,
    ),
    Metric(
        "replicator_slo_ratio",
        "gauge",
        ("table",),
        "The part of the minutes of the window that were fresh, 0 to 1, by the freshness objective; `table` is empty for the pipeline. `__other__` has the smallest.",
        min,
    ),
    Metric(
        "replicator_slo_budget_minutes",
        "gauge",
        ("table",),
        "How many minutes of the window may yet be broken; negative when the objective is missed. `table` is empty for the pipeline. `__other__` has the smallest.",
        min,
    ),
    Metric(
        "replicator_target_files",
        "gauge",
        ("table",),
        "Data files of the table's newest version at the target; missing where the target has none, or does not say.",
    ),
    Metric(
        "replicator_target_bytes",
        "gauge",
        ("table",),
        "Bytes of these files; in Iceberg those of files of deletes, too.",
    ),
    Metric(
        "replicator_target_rows",
        "gauge",
        ("table",),
        "Rows in these files, those that are deleted and still stored included; missing while it is not known.",
    ),
    Metric(
        "replicator_target_deleted_rows",
        "gauge",
        ("table",),
        "How many of these are deleted, and stored until maintenance writes their files again: the delete debt.",
    ),
    Metric("replicator_lane_changes", "gauge", ("table",), "Changes that wait in the table's lane."),
    Metric("replicator_lane_bytes", "gauge", ("table",), "Bytes stored of the table's lane."),
    Metric(
        "replicator_waiting_bytes",
        "gauge",
        (),
        "Bytes read that wait in memory for their batch; 0 where executors read the log.",
    ),
    Metric(
        "replicator_batch_seconds",
        "summary",
        ("step",),
        "Time per batch: `wait` until its changes are enough, `apply` at the target, `save` of the offset.",
    ),
    Metric(
        "replicator_spark_executors",
        "gauge",
        (),
        "Spark executors that the run has now; with the master `local` the driver is the only one. These three are missing while the run has no Spark session.",
    ),
    Metric("replicator_spark_cores", "gauge", (), "Cores of these executors: so many tasks run at once."),
    Metric("replicator_spark_running_tasks", "gauge", (), "Tasks that run on them; asked for every five seconds."),
    Metric("replicator_sequence_number", "gauge", (), "Sequence number of the saved offset."),
    Metric(
        "replicator_reported_total",
        "counter",
        ("table", "name"),
        "Other counters of source and target, by the names on their pages; `table` is empty where one is not of a table.",
    ),
    Metric(
        "replicator_reported",
        "gauge",
        ("table", "name"),
        "The same of their gauges. `__other__` has the largest of its tables.",
        max,
    ),
)
