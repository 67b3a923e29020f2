"""`replicator verify`: compares tables with their copies."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

import typer

from replicator_runtime.cli.options import AsJson, Base, Debug, Namespace, Replicator, Yes
from replicator_runtime.cli.report import Report
from replicator_runtime.observability.next_steps import Subject, only

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from replicator_runtime.cli.commands.checks.repair import Repaired
    from replicator_runtime.engine.verification.verify import Verified
    from replicator_sdk import TableId

KEYS_SHOWN = 20
_NOTE_SECONDS: Final = 10.0
"""Where no terminal is, as in a log, one line in so many seconds says how far a comparison is."""
VERIFY_SECONDS: Final = 120.0
Tables = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[TABLE...]",
        help="As table, schema.table or database.schema.table; quoted as in SQL where a name has dots. All when left out.",
        show_default=False,
    ),
]
Timeout = Annotated[
    float,
    typer.Option(min=0, help="Wait for so many seconds, each time, until the target has what the source had."),
]
ShowKeys = Annotated[
    bool, typer.Option("--show-keys", help=f"Show the keys of up to {KEYS_SHOWN} rows of each table that differ.")
]
Repair = Annotated[
    bool,
    typer.Option(
        "--repair",
        help="Write the rows that differ again as the source has them, delete those that it has not, and compare once more.",
    ),
]
Every = Annotated[
    str | None,
    typer.Option(
        "--every",
        metavar="INTERVAL",
        help="Have runs compare the tables so often from now on, as in 6h, 30m or 1d, at least 1m; never ends it. Compares nothing itself.",
        show_default=False,
    ),
]
Rate = Annotated[
    float | None,
    typer.Option(
        "--rate", min=1, help="Read at most so many rows of the source a second, on average.", show_default=False
    ),
]


def verify(
    name: Replicator,
    tables: Tables = None,
    timeout: Timeout = VERIFY_SECONDS,
    show_keys: ShowKeys = False,
    repair: Repair = False,
    yes: Yes = False,
    every: Every = None,
    rate: Rate = None,
    namespace: Namespace = "default",
    base: Base = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Compare tables with their copies, row by row, at a common position. Without --repair it changes nothing and stops nothing.

    Needs the pipeline's file. Best beside a run. Ends with exit code 5 when a table differs; rows that change whenever they are
    looked at are counted as changing, not as different. With --every the run itself compares the tables from time to time, and `replicator
    status` shows when each was verified. Example: replicator verify pipeline.json shop.orders --repair
    """
    with Report("verify", as_json=as_json, debug=debug, subject=Subject(name, namespace, base, only(tables))) as report:
        if every is not None:
            from replicator_runtime.cli.commands.checks.verify_every import verify_every

            if repair or show_keys:
                raise typer.BadParameter("it goes without --repair and --show-keys", param_hint="--every")
            verify_every(report, name, tables or (), every, rate, timeout, namespace, base)
            return
        from replicator_runtime.cli.reading import read_beside_run
        from replicator_runtime.engine.snapshot.throttle import Throttle
        from replicator_runtime.engine.verification.table_comparison import Settings
        from replicator_runtime.engine.verification.verify import verify as compare

        shown = report.note if sys.stderr.isatty() else now_and_then(report.note)
        pace = None if rate is None else Throttle(rate)
        settings = Settings(timeout, KEYS_SHOWN if show_keys else 0, shown, pace)

        def compared(tables: Sequence[str]) -> tuple[list[Verified], int]:
            return read_beside_run(name, namespace, base, lambda reading: compare(reading, tables, settings))

        found, signal = compared(tables or ())
        done: dict[TableId, Repaired] = {}
        if repair and not signal:
            from replicator_runtime.cli.commands.checks.repair import Repairing, names_of

            done = Repairing(report, name, namespace, base, timeout).run(found, yes=yes)
            if again := names_of(done):
                after, signal = compared(again)
                done |= {one.table: replace(done[one.table], after=one) for one in after}
        _print(report, found, done)
    if signal:
        raise typer.Exit(signal)


def now_and_then(say: Callable[[str], None], seconds: float = _NOTE_SECONDS) -> Callable[[str], None]:
    """`say`, but for what comes within so many seconds after the beginning or after what was said last."""
    last = time.monotonic()

    def note(text: str) -> None:
        nonlocal last
        if time.monotonic() - last >= seconds:
            last = time.monotonic()
            say(text)

    return note


def _print(report: Report, found: list[Verified], done: Mapping[TableId, Repaired]) -> None:
    """Print what was found, and what was repaired.

    Raises:
        DataError: RPL-5030 when a table differs.
        ReplicatorError: Otherwise why the first table could not be compared, or not again after it was repaired.
    """
    from replicator_sdk.errors import DataError

    shown = [_json(one, done.get(one.table)) for one in found]
    equal = {table for table, repaired in done.items() if repaired.is_equal}
    equal |= {one.table for one in found if one.found is not None and one.found.is_equal}
    report.data = {"equal": all(one.table in equal for one in found), "tables": shown}
    if not found:
        report.note("no table of the pipeline was compared")
    else:
        headings = ("table", "result", "rows source", "rows target", "missing", "surplus", "different", "changing")
        report.table((*headings, "position"), [_row(one, line) for one, line in zip(found, shown, strict=True)])
    for one in found:
        _print_details(report, one)
        if one.table in done:
            _print_repaired(report, one, done[one.table])
    different = [one for one, line in zip(found, shown, strict=True) if line["result"] == "different"]
    if different:
        names = ", ".join(str(one.table) for one in different[:5]) + (", …" if len(different) > 5 else "")
        raise DataError(
            f"{len(different)} of {len(found)} tables differ from the source: {names}",
            code="RPL-5030",
            hint="--show-keys shows which rows; --repair writes these again, and `replicator table resync NAME TABLE` copies a"
            " whole table again",
            table=str(different[0].table),
        )
    for one in (*found, *(repaired.after for repaired in done.values() if repaired.after)):
        if one.error is not None:
            raise one.error


def _print_repaired(report: Report, one: Verified, repaired: Repaired) -> None:
    found, error, after = repaired.found, repaired.error, repaired.after
    if error is not None:
        report.warn(f"{one.table} was not repaired: {error}", str(one.table))
    elif found is not None and (failed := found.get("error")):
        why = f"{failed['code']}: {failed['message']}. Next: {failed['hint']}"
        report.warn(f"{one.table} was not repaired: {why}", str(one.table))
    elif found is not None:
        report.line(
            f"{one.table}: {found['written']:,} rows written, {found['deleted']:,} deleted, as of {found['position']}"
        )
    if after is not None and after.error is not None:
        report.warn(f"{one.table} was repaired, and could not be compared again: {after.error}", str(one.table))


def _print_details(report: Report, one: Verified) -> None:
    if one.error is not None:
        report.warn(f"{one.table} was not compared: {one.error}", str(one.table))
    elif one.found is not None:
        if one.found.left_out:
            report.note(
                f"{one.table}: the pipeline leaves out {', '.join(one.found.left_out)}; what follows from it is not counted"
            )
        if one.found.changing:
            report.warn(
                f"{one.table}: {one.found.changing:,} rows changed whenever they were looked at, so nothing is known of them"
            )
        for shown in one.found.keys:
            values = ", ".join(f"{column} = {value!r}" for column, value in shown["key"].items())
            report.line(f"{one.table}: {' and '.join(shown['is'])}: {values}")


def _state(one: Verified, repaired: Repaired | None) -> str:
    if one.found is None:
        return "not compared"
    if repaired is not None and repaired.is_done:
        return "repaired"
    return "equal" if one.found.is_equal else "different"


def _row(one: Verified, shown: Mapping[str, object]) -> tuple[object, ...]:
    names = ("result", "rowsSource", "rowsTarget", "missing", "surplus", "different", "changing", "position")
    return (one.table, *(shown[name] for name in names))


def _json(one: Verified, repaired: Repaired | None) -> dict[str, object]:
    from replicator_runtime.cli.report import error_json

    found = one.found
    counts = {
        "rowsSource": found and found.rows_source,
        "rowsTarget": found and found.rows_target,
        "missing": found and found.missing,
        "surplus": found and found.surplus,
        "different": found and found.different,
        "changing": found and found.changing,
        "position": found and found.position,
        "dmlBlacklist": list(found.left_out) if found else [],
        "comparisons": found and found.comparisons,
    }
    keys = {"keys": list(found.keys)} if found and found.keys else {}
    return {
        **one.table.to_json(),
        "result": _state(one, repaired),
        **counts,
        **keys,
        "repaired": None if repaired is None else repaired.to_json(),
        "seconds": round(one.seconds, 1),
        "error": None if one.error is None else error_json(one.error),
    }
