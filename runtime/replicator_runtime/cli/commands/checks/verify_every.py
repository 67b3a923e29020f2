"""`replicator verify --every`: asks that runs compare tables from time to time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replicator_runtime.cli.report import Report

NEVER: Final = "never"
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def verify_every(
    report: Report,
    name: str,
    tables: Sequence[str],
    every: str,
    rate: float | None,
    timeout: float,
    namespace: str,
    base: str | None,
) -> None:
    """Ask for it, and report what was stored.

    Args:
        report: Takes request and outcome.
        name: The replicator.
        tables: Which tables; all when empty.
        every: The interval, or `never`.
        rate: How many rows of the source are read a second; None for no limit.
        timeout: How long to wait for the outcome, in seconds.
        namespace: As `find_state`.
        base: As `find_state`.

    Raises:
        NeedsUserError: RPL-1379 for an interval that cannot be read or is too short, RPL-1380 for tables with `never`.
        ReplicatorError: As `ask`.
    """
    from replicator_runtime.cli.control import ask
    from replicator_runtime.engine.schedule.schedule import VERIFY_EVERY
    from replicator_sdk.errors import NeedsUserError

    seconds = seconds_of(every)
    if not seconds and tables:
        raise NeedsUserError(
            "`--every never` ends the comparisons of all tables",
            code="RPL-1380",
            hint="give it without tables; or give those that are still to be compared, with an interval",
        )
    arguments = {"everySeconds": seconds, "rowsPerSecond": rate, "tables": list(tables)}
    ask(report, name, namespace, base, VERIFY_EVERY, arguments, timeout=timeout)


def seconds_of(every: str) -> float:
    """The seconds of an interval; 0 for `never`.

    Raises:
        NeedsUserError: RPL-1379.
    """
    from replicator_runtime.engine.schedule.schedule import SHORTEST_SECONDS
    from replicator_sdk.errors import NeedsUserError

    if every == NEVER:
        return 0.0
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", every)
    seconds = float(found[1]) * _SECONDS[found[2]] if found else 0.0
    if seconds < SHORTEST_SECONDS:
        raise NeedsUserError(
            f'"{every}" is no interval of a minute or more',
            code="RPL-1379",
            hint="write a number and a unit, as in 30m, 6h or 1d; or never, which ends it",
        )
    return seconds
