"""The alerting rules, as a file that Prometheus reads.

Each alert is about something a person has to do, and has a runbook (`runbooks.py`) that says what. The rules use the metrics
of docs/metrics.md and nothing of the scraping job, so that they also hold for files that node_exporter reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["page", "warning"]

RUNBOOKS = "docs/runbooks"
_PER_PIPELINE = "max by (pipeline)"
_PER_TABLE = "max by (pipeline, table)"
_CHANGES = "sum by (pipeline) (increase(replicator_changes_total[10m]))"
_COPIED = "sum by (pipeline) (increase(replicator_snapshot_rows_total[10m]))"
_PAUSED = f'{_PER_PIPELINE} (replicator_phase{{phase="paused"}}) == 1'
_LATE = f"{_PER_TABLE} (replicator_table_lag_seconds) > 600"
_LATE_TABLES = f"count by (pipeline) ({_LATE})"
_TABLES = f"count by (pipeline) ({_PER_TABLE} (replicator_table_lag_seconds))"
# Many tables are late for one reason: then it is one alert of the pipeline and none of each table (docs/decisions/0066-one-reason-is-one-message.md).
_LATE_TOGETHER = f"{_LATE_TABLES} > 10 or {_LATE_TABLES} > 1 == {_TABLES} or {_LATE_TABLES} and on (pipeline) {_PAUSED}"
_MISSED = _PER_TABLE + ' (replicator_slo_budget_minutes{table!=""}) < 0'
_WORKED = f'{_PER_PIPELINE} (max_over_time(replicator_phase{{phase=~"snapshot|streaming|paused|maintenance|stopping|done"}}[10m])) == 1'
_DELETED = f"{_PER_TABLE} (replicator_target_deleted_rows)"
# Maintenance writes a file again that has lost a fifth of its rows; in small tables no one notices.
_IN_DEBT = f"{_DELETED} / {_PER_TABLE} (replicator_target_rows) > 0.3 and {_DELETED} > 100000"
_FAILS = f"{_PER_PIPELINE} (replicator_failing) == 1"
_ENDED = f'{_PER_PIPELINE} (replicator_phase{{phase=~"done|failed"}}) == 1'


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert.

    Attributes:
        name: Its name, and in lower case with hyphens that of its runbook.
        expression: PromQL; its result has the label `pipeline`, and `table` where the alert is of one table.
        minutes: For how long the expression holds before the alert fires.
        severity: `page` when changes do not arrive until an operator acts, `warning` when there is time.
        summary: One line for a message, a template of Prometheus.
        meaning: What is wrong, and what happens if no one does anything.
        steps: What to do, in order, each a paragraph.
        ends: When the alert ends.
    """

    name: str
    expression: str
    minutes: int
    severity: Severity
    summary: str
    meaning: str
    steps: tuple[str, ...]
    ends: str

    @property
    def page(self) -> str:
        """The file name of its runbook."""
        words = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in self.name)
        return f"{words.strip('-')}.md"


ALERTS: tuple[Alert, ...] = (
    Alert(
        name="ReplicatorRunFails",
        expression=_FAILS,
        minutes=2,
        severity="page",
        summary="{{ $labels.pipeline }} replicates nothing: its source, its target or its state refuses it or does not answer",
        meaning="The run as a whole fails, and no table gets changes. It tries again by itself; where "
        "`retries.maxDurationSeconds` is set, it ends with exit code 4 after that time. An error that no retry can fix ends it at once. "
        "Nothing is lost meanwhile, as long as the source keeps its log.",
        steps=(
            "`replicator status NAME` shows the error with its code, and what to do next. [Error codes](../errors.md) says more of each code.",
            ("Fix the cause and leave the run alone: its next attempt goes on where the last one stopped. A run that has ended is "
            "started again with `replicator run FILE`."),
            "Look how long the source keeps its log (its page, \"Before you start\"): that is the time there is.",
        ),
        ends="With the first attempt that works.",
    ),
    Alert(
        name="ReplicatorRunGone",
        expression=f"({_PER_PIPELINE} (max_over_time(replicator_build_info[1h])) unless {_PER_PIPELINE} (replicator_build_info))"
        f" or ({_PER_PIPELINE} (time() - replicator_shown_timestamp_seconds) > 300 unless on (pipeline) {_ENDED})",
        minutes=2,
        severity="page",
        summary="{{ $labels.pipeline }} had a run within the last hour, and has none now",
        meaning="Its process has ended, or Prometheus does not reach it. A run that was ended on purpose raises this alert, too: silence it beforehand. "
        "A run whose metrics are in a file (`--metrics-textfile`) raises it when the file was replaced last more than five minutes ago, and does not say that the run has ended.",
        steps=(
            "`replicator status NAME` shows whether a run holds the pipeline, when it wrote last, and the error that ended it.",
            ("Look at the exit code where the process was started: 3, 6 and 7 wait for a person, 8 says that another run took over, 4 may be "
            "started again at once."),
            "Start it with `replicator run FILE`: it goes on at its saved offset.",
        ),
        ends="When a run is there again; without a file, also an hour after the last one was seen. What has no run for longer needs a supervisor that restarts it.",
    ),
    Alert(
        name="ReplicatorRunNeverWorks",
        expression=f"{_PER_PIPELINE} (max_over_time(replicator_build_info[10m])) unless on (pipeline) {_WORKED} unless on (pipeline) {_FAILS}",
        minutes=5,
        severity="page",
        summary="Runs of {{ $labels.pipeline }} begin, and none has read or copied anything for ten minutes",
        meaning="A supervisor starts it again and again, and each run ends before it works: a password that was changed, a pipeline that was edited. "
        "Or a run hangs at its start. Each is there for too short a time for ReplicatorRunFails and ReplicatorRunGone.",
        steps=(
            "`replicator status NAME` shows the error that ended the last run, and what to do next; `replicator logs NAME --level warning` what runs have logged.",
            "`replicator validate FILE` and `replicator assess FILE` say what is wrong with the pipeline, its source and its target.",
            "Look at the exit code where the process is started: 2, 3, 6 and 7 do not pass by themselves, and need not be tried again before a person has acted.",
        ),
        ends="With the first run that copies or reads.",
    ),
    Alert(
        name="ReplicatorTableFails",
        expression=f'{_PER_TABLE} (replicator_table_state{{state="FAILING"}}) > 0',
        minutes=5,
        severity="page",
        summary="{{ $labels.table }} of {{ $labels.pipeline }} gets no changes; the other tables go on",
        meaning="Changes of one table cannot be applied. They wait in the source's log, and after ten minutes "
        "(`failingTables.laneAfterMinutes`) in the table's lane. A lane that outgrows its bounds is dropped, and the table copied again.",
        steps=(
            "`replicator status NAME` shows the table's error with its code, and what to do next.",
            "Fix the cause, then `replicator table retry NAME TABLE` does not wait for the next attempt.",
            ("A table that cannot be fixed is copied again with `replicator table resync NAME TABLE`, or left out for now with "
            "`replicator table pause NAME TABLE`."),
        ),
        ends="When its changes are applied again.",
    ),
    Alert(
        name="ReplicatorTableLate",
        expression=f"{_LATE} unless on (pipeline) ({_LATE_TOGETHER})",
        minutes=10,
        severity="warning",
        summary="{{ $labels.table }} of {{ $labels.pipeline }} is {{ $value | humanizeDuration }} late",
        meaning="Readers of the copy see the table as it was more than ten minutes ago, and most other tables are not as late. "
        "When more than ten tables are, or all of a pipeline, or it is paused, ReplicatorPipelineLate fires once instead.",
        steps=(
            "`replicator status NAME` shows the state, the lag and the rate of each table. One that is paused, fails or is being copied is late for that reason: the status says since when, and what to do.",
            "A table that replicates, and whose lag falls, needs nothing but time: a large transaction does this for a while.",
            ("A lag that rises beside a high rate means that the table changes faster than the target takes it: "
            "give Spark more cores, or make batches larger (`batch` in the pipeline's settings)."),
            "`replicator logs NAME --table TABLE --since 1h --level warning` shows what runs have logged of it.",
        ),
        ends="When the table is less than ten minutes late.",
    ),
    Alert(
        name="ReplicatorPipelineLate",
        expression=_LATE_TOGETHER,
        minutes=10,
        severity="warning",
        summary="{{ $value }} tables of {{ $labels.pipeline }} are more than ten minutes late",
        meaning="Readers see more than ten tables, or all of the pipeline, as they were more than ten minutes ago: it is paused, source or target cannot be reached, or a backlog is applied. "
        "The tables beyond `--metrics-table-limit` count as one.",
        steps=(
            "`replicator status NAME` shows the phase. A paused pipeline waits for `replicator resume NAME`; an error is shown with its next step, and is the alert [ReplicatorRunFails](replicator-run-fails.md).",
            "A lag that falls needs nothing but time: a backlog after a stop, or a large transaction, does this for a while.",
            ("`readLagSeconds` of `replicator status NAME --json` is the part of `lagSeconds` by which reading is late. Where it is most of it, look at the source and the network to it; "
            "else at the target, and give Spark more cores, or make batches larger (`batch` in the pipeline's settings)."),
            "A lag that rises while no table has a rate is the alert [ReplicatorStalled](replicator-stalled.md).",
        ),
        ends="When at most ten tables are late, and not all of the pipeline; those that still are have alerts of their own ten minutes later.",
    ),
    Alert(
        name="ReplicatorStalled",
        expression=f"{_PER_PIPELINE} (replicator_lag_seconds) > 60 unless on (pipeline) {_CHANGES} > 0 unless on (pipeline) {_COPIED} > 0 unless on (pipeline) {_PAUSED}",
        minutes=10,
        severity="page",
        summary="{{ $labels.pipeline }} has changes to apply, and applied none for ten minutes",
        meaning="The run is there, changes wait, and none reaches the target: something neither works nor fails.",
        steps=(
            "`replicator status NAME` shows the phase, and an error where there is one.",
            "Look at the target: a lock, a quota, a cluster that gives no executors.",
            "End the run with SIGTERM and start it again; when that does not end in time, SIGKILL is safe: every change is applied once all the same.",
        ),
        ends="With the first change that is applied.",
    ),
    Alert(
        name="ReplicatorRetries",
        expression="sum by (pipeline) (increase(replicator_retries_total[30m])) > 10",
        minutes=0,
        severity="warning",
        summary="{{ $labels.pipeline }} had to try again {{ $value | humanize }} times in half an hour",
        meaning="Attempts fail and later ones work: a network that loses connections, a target that throttles. Lag suffers; nothing is lost.",
        steps=(
            "`replicator status NAME` shows the last error of the run and of each table for some minutes after it is over.",
            "The metric `replicator_failures_total` has the codes: look them up in [Error codes](../errors.md).",
        ),
        ends="When there were at most ten within half an hour.",
    ),
    Alert(
        name="ReplicatorTablePaused",
        expression=f'{_PER_TABLE} (replicator_table_state{{state="PAUSED"}}) > 0',
        minutes=1440,
        severity="warning",
        summary="{{ $labels.table }} of {{ $labels.pipeline }} has been paused for a day",
        meaning="Its changes go to its lane, which is bounded in bytes and age: when a bound is passed the lane is dropped, and the table is copied again when it is resumed.",
        steps=(
            "`replicator status NAME` shows since when, and what has gathered.",
            ("`replicator table resume NAME TABLE` gives the target what has gathered. A table whose changes of structure wait for a decision is "
            "resumed by `replicator ddl approve NAME` or `replicator ddl reject NAME`."),
        ),
        ends="When the table is resumed.",
    ),
    Alert(
        name="ReplicatorSourceSilent",
        expression=f"{_PER_PIPELINE} (replicator_source_silent_seconds) > 10",
        minutes=2,
        severity="page",
        summary="The source of {{ $labels.pipeline }} has not answered for {{ $value | humanizeDuration }}",
        meaning="Connections may be open, but the source says nothing: a frozen server, a network that drops packets. The lag grows, and no error may come for long.",
        steps=(
            "Look at the source's server, and at the network from the replicator's host to it.",
            "A run goes on by itself when the source answers again; there is no need to start it again.",
        ),
        ends="When the source answers.",
    ),
    Alert(
        name="ReplicatorSourceLogEnds",
        # A retention of a few hours is no reason to wake a person while the lag is small and most of it is left: the time left is all of it, always.
        expression=f"{_PER_PIPELINE} (replicator_source_seconds_left) < 21600 and on (pipeline)"
        f" ({_PER_PIPELINE} (replicator_lag_seconds) > 600 or {_PER_PIPELINE} (replicator_source_held_limit_bytes) > 0"
        f" or {_PER_PIPELINE} (replicator_source_seconds_left <= 0.5 * replicator_source_retention_seconds))",
        minutes=5,
        severity="page",
        summary="The source of {{ $labels.pipeline }} gives up log that is needed in {{ $value | humanizeDuration }}",
        meaning="By its growth or its retention the source deletes changes that are not replicated yet within six hours (by its retention: while the lag is more than ten minutes, or half of it is over). The run, or the table "
        "where only one lacks changes, then stops with exit code 7, and is compared with the source (`replicator heal`) or copied again; what only Kafka's topics had is lost.",
        steps=(
            ("`replicator status NAME` shows what gives the changes up (the setting, and the topic where it is Kafka's), and what holds the offset: a run "
            "that is paused or fails, or a table that fails and has no lane yet."),
            "Fix it, or have a failing table hold the log no more: `replicator table pause NAME TABLE` gives it a lane.",
            ("Meanwhile raise the limit at the source: `max_slot_wal_keep_size` of PostgreSQL, `binlog_expire_logs_seconds` of MySQL and MariaDB, `retention.ms` and "
            "`retention.bytes` (of a compacted topic `delete.retention.ms`) of the topic in Kafka, `archive.keepDays` of the pipeline that writes an archive."),
        ),
        ends="When there are more than six hours again, or the log grows towards no limit.",
    ),
    Alert(
        name="ReplicatorObjectiveMissed",
        expression=f'{_PER_TABLE} (replicator_slo_budget_minutes{{table=""}}) < 0 or {_MISSED} unless on (pipeline) count by (pipeline) ({_MISSED}) > 10',
        minutes=0,
        severity="warning",
        summary="The freshness objective of {{ $labels.pipeline }} {{ $labels.table }} is missed",
        meaning="More minutes of the window were broken than the freshness objective (`slo`) of the table, or of the pipeline where `table` is empty, allows. Where those of more than ten tables are missed, only that of the pipeline fires.",
        steps=(
            "`replicator slo NAME` shows the tables with the least, and the days of the window.",
            "The dashboard shows when they were late; the runbook of [ReplicatorTableLate](replicator-table-late.md) and that of [ReplicatorPipelineLate](replicator-pipeline-late.md) say what to do about it.",
        ),
        ends="When enough of the broken minutes have left the window.",
    ),
    Alert(
        name="ReplicatorDeleteDebt",
        expression=f"count by (pipeline) ({_IN_DEBT}) > 0",
        minutes=180,
        severity="warning",
        summary="{{ $value }} tables of {{ $labels.pipeline }} store many rows that are deleted",
        meaning="Of more than three rows in ten of these tables it is only noted that they are deleted, for hours and of more than 100,000 rows: maintenance, which writes such files again, does not run, or does not keep up. "
        "Readers read these rows and leave them out, so queries get slower, and storage is paid for. Nothing is lost or wrong. The tables beyond `--metrics-table-limit` count as one.",
        steps=(
            ("The dashboard's chart \"Deleted rows that are still stored\" names the tables: `replicator_target_deleted_rows` over `replicator_target_rows`. `maintenance` of each table in `replicator status NAME --json` says when it had "
            "each task last, and why one failed since."),
            ("Compaction that is turned off (`optimizeIntervalSeconds` of the target `delta`, `compactIntervalSeconds` of `iceberg`, 0 for never) has to be done by someone: `replicator maintain FILE` does what is due between runs. "
            "In runs with `--until-current`, `maintenance.maxSecondsAtEnd` is how long it may take at their ends."),
            "A table whose rows nearly all change all the time is in debt again at once: have it compacted more often, by the same setting.",
        ),
        ends="When at most three stored rows in ten of each table are deleted ones.",
    ),
)  # fmt: skip


def rules(runbooks: str = RUNBOOKS, alerts: Iterable[Alert] = ALERTS, *, minute: str = "m") -> str:
    """The alerts as a rule file.

    Args:
        runbooks: Where the runbooks are; `runbook_url` of each alert is in it.
        alerts: Which.
        minute: The unit of `Alert.minutes`; with `s` all fire sixty times as fast, to try them.
    """
    lines = ["# Written by `replicator export alerts`.", "groups:", "  - name: replicator", "    rules:"]
    for alert in alerts:
        lines += [
            f"      - alert: {alert.name}",
            f"        expr: {json.dumps(alert.expression)}",
            f"        for: {alert.minutes}{minute}",
            f"        labels: {{severity: {alert.severity}}}",
            "        annotations:",
            f"          summary: {json.dumps(alert.summary)}",
            f"          runbook_url: {json.dumps(f'{runbooks}/{alert.page}')}",
        ]
    return "\n".join(lines) + "\n"
