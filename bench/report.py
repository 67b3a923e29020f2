"""`RESULTS.md`: medians, their spread, and the ratios that were asked for."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import psutil

from bench.comparisons.bigquery import FLUSH, STAGING
from bench.comparisons.commits import COMMITS, LENGTHS
from bench.comparisons.commits import what as commit_after
from bench.comparisons.iceberg import ICEBERG_BACKLOG, ICEBERG_SNAPSHOT, INTO_DELTA
from bench.comparisons.many_tables import COUNTS, TABLES, seconds, share
from bench.comparisons.paused import BEFORE, BESIDE, PAUSED
from bench.comparisons.postgres import BACKLOG, DECODE, OBSERVED, SNAPSHOT, WITHOUT
from bench.comparisons.topics import ONE_CORE, TOPIC
from bench.comparisons.turns import Plan
from bench.comparisons.verified import COPIED, VERIFIED, VERIFY
from bench.data.mysql_orders import SERVERS
from bench.data.order_changes import SHAPES
from bench.measure import Book

_RATE = "rows/s, marginal"


@dataclass(frozen=True, slots=True)
class Goal:
    """One number that was asked for.

    Attributes:
        name: What it says.
        reach: The goal, as text.
        value: Takes it from the book; None when it was not measured.
        met: Whether a value reaches the goal.
    """

    name: str
    reach: str
    value: Callable[[Book], float | None]
    met: Callable[[float], bool]


def _ratio(scenario: str, side: str) -> Callable[[Book], float | None]:
    def value(book: Book) -> float | None:
        ours, theirs = book.median(scenario, "ours", _RATE), book.median(scenario, side, _RATE)
        return ours / theirs if ours and theirs else None

    return value


def _observed(book: Book) -> float | None:
    ours, theirs = (book.median(OBSERVED, side, "CPU s, large run") for side in ("ours", WITHOUT))
    return ours / theirs if ours and theirs else None


def _against(name: str, scenario: str, side: str, least: float) -> Goal:
    return Goal(f"{name} ÷ {side}", f"≥ {least:g} ×", _ratio(scenario, side), _at_least(least))


def _number(scenario: str, what: str) -> Callable[[Book], float | None]:
    return lambda book: book.median(scenario, "ours", what)


def _at_least(goal: float) -> Callable[[float], bool]:
    return lambda value: value >= goal


def _at_most(goal: float) -> Callable[[float], bool]:
    return lambda value: value <= goal


def goals(plan: Plan) -> tuple[Goal, ...]:
    """What is compared with what, and the goal."""

    def size(book: Book) -> float | None:
        what = "s, 50,000 clustered changes into {:,} rows"
        small, large = (book.median("table size", "ours", what.format(n)) for n in (plan.rows, 10 * plan.rows))
        return large / small if small and large and small > 0 else None

    def growth(book: Book) -> float | None:
        small, large = (book.median("memory", "ours", f"MB of Python, {n}") for n in ("backlog", "backlog × 10"))
        return large / small if small and large else None

    def longer(book: Book) -> float | None:
        short, long = (book.median(COMMITS, "ours", commit_after(n)) for n in (LENGTHS[0], LENGTHS[-1]))
        return long / short if short and long else None

    def beside(book: Book) -> float | None:
        before, paused = (book.median(PAUSED, "ours", what) for what in (BEFORE, BESIDE))
        return paused / before if before and paused else None

    def comparison(book: Book) -> float | None:
        copied, verified = (book.median(VERIFY, "ours", what) for what in (COPIED, VERIFIED))
        return verified / copied if copied and verified else None

    def first_load(what: Callable[[int], str]) -> Callable[[Book], float | None]:
        return _number(TABLES, what(COUNTS[-1]))

    return (
        _against("snapshot", SNAPSHOT, "dlt + connectorx", 1.0),
        _against("snapshot", SNAPSHOT, "Debezium-iceberg", 10),
        _against("backlog, merged", BACKLOG, "pg_recvlogical", 0.3),
        _against("backlog, merged", BACKLOG, "Debezium-jdbc", 6),
        _against("backlog, merged", BACKLOG, "Debezium-iceberg", 2),
        Goal("backlog, CPU s observed ÷ unobserved", "≤ 1.02 ×", _observed, _at_most(1.02)),
        _against("decode alone", DECODE, "Debezium engine", 2),
        Goal("latency p50, s", "≤ 3", _number("latency", "s, p50"), _at_most(3)),
        Goal("latency p99, s", "≤ 8", _number("latency", "s, p99"), _at_most(8)),
        Goal("p99 beside a paused table ÷ before", "≤ 1.5 ×", beside, _at_most(1.5)),
        Goal("verify ÷ the copy", "≤ 2 ×", comparison, _at_most(2)),
        Goal(
            "Python, MB, one transaction",
            "≤ 512",
            _number("memory", "MB of Python, one transaction"),
            _at_most(512),
        ),
        Goal("Python, backlog × 10 ÷ backlog", "flat (≤ 1.2)", growth, _at_most(1.2)),
        Goal("table of 10 × rows ÷ table", "≤ 2 ×", size, _at_most(2)),
        Goal("Delta commit after 100,000 ÷ after 10", "flat (≤ 1.2)", longer, _at_most(1.2)),
        Goal("first load of 1,000 tables, s", "≤ 300", first_load(seconds), _at_most(300)),
        Goal("its share for records, %", "≤ 5", first_load(share), _at_most(5)),
        _against("topic of 8 partitions, merged", TOPIC, "Debezium-jdbc", 4),
        _against("topic of 8 partitions, merged", TOPIC, "Debezium-iceberg", 2),
        _against("topic of 8 partitions, two cores", TOPIC, ONE_CORE, 1.6),
        _against("Iceberg: snapshot", ICEBERG_SNAPSHOT, INTO_DELTA, 0.91),
        _against("Iceberg: backlog, merged", ICEBERG_BACKLOG, "pg_recvlogical", 0.7),
        *(goal for server in SERVERS for goal in _mysql_goals(server)),
        *_bigquery_goals(),
    )


def _mysql_goals(server: str) -> tuple[Goal, ...]:
    """The goals of MySQL's scenarios, which run on either server."""
    return (
        _against(f"{server}: snapshot", f"{server}-snapshot", "DB-API cursor", 5),
        _against(f"{server}: snapshot", f"{server}-snapshot", "connectorx alone", 0.5),
        _against(f"{server}: backlog, merged", f"{server}-backlog", "Debezium-jdbc", 5),
        _against(f"{server}: decode alone", f"{server}-decode", "mysql-replication", 15),
    )


def _bigquery_goals() -> tuple[Goal, ...]:
    """What the BigQuery target was asked for; all of it is our own work, against emulators."""

    def statements(book: Book) -> float | None:
        found = [book.values(FLUSH, "ours", f"statements, {shape.name}") for shape in SHAPES]
        return max(values[-1] for values in found) if all(found) else None

    return (
        *(
            Goal(f"BigQuery: {s.name}, million rows per CPU s into the bucket", "≥ 1", _millions(s.name), _at_least(1))
            for s in SHAPES
        ),
        Goal("BigQuery: statements, flush and table", "≤ 3", statements, _at_most(3)),
    )


def _millions(shape: str) -> Callable[[Book], float | None]:
    def value(book: Book) -> float | None:
        rows = book.median(STAGING, "ours", f"rows per CPU second, {shape}")
        return rows / 1e6 if rows else None

    return value


def render(book: Book, plan: Plan) -> str:
    """The whole page."""
    lines = [
        "# Results",
        "",
        _machine(plan),
        "",
        "## Asked for",
        "",
        "| what | goal | measured | |",
        "|---|---|---|---|",
    ]
    for goal in goals(plan):
        value = goal.value(book)
        shown, met = ("not measured", "") if value is None else (f"{value:.2f}", "yes" if goal.met(value) else "**no**")
        lines.append(f"| {goal.name} | {goal.reach} | {shown} | {met} |")
    lines += [
        "",
        "## All numbers",
        "",
        "| scenario | side | what | median | least | most | n |",
        "|---|---|---|---|---|---|---|",
    ]
    for key in dict.fromkeys((n.scenario, n.side, n.what) for n in book.numbers):
        values, median = book.values(*key), book.median(*key)
        if median is not None:
            shown = " | ".join(f"{v:,.2f}" if v < 1000 else f"{v:,.0f}" for v in (median, values[0], values[-1]))
            lines.append(f"| {' | '.join(key)} | {shown} | {len(values)} |")
    return "\n".join(lines) + "\n"


def _machine(plan: Plan) -> str:
    return (
        f"Written by `make bench` on {datetime.now(UTC):%Y-%m-%d}: {os.cpu_count()} cores, "
        f"{psutil.virtual_memory().total >> 30} GiB, {platform.system()}, Python {platform.python_version()}; "
        f"{plan.rows:,} rows, {plan.changes:,} changes, {plan.rounds} rounds, load average "
        f"{os.getloadavg()[0]:.1f} at the end. What bounds each number is in [README](README.md)."
    )
