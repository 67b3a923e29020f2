"""Finds, sorts and pages the tables of a pipeline."""

from __future__ import annotations

import base64
import enum
import json
from typing import TYPE_CHECKING, Any

from replicator_runtime.service.problems import NOT_VALID, FieldProblem, ProblemError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_URGENT = {"FAILING": 0, "PAUSED": 2, "SNAPSHOTTING": 3, "PENDING": 4, "REPLICATING": 5}


class TableSort(enum.StrEnum):
    """The order of tables; those that are equal are in the order of their names."""

    NAME = "name"
    URGENCY = "urgency"
    """Those that need someone first, then by lag."""
    LAG = "lag"
    """The largest first."""
    ROWS = "rows"
    RATE = "rate"


def chosen(
    rows: Iterable[Mapping[str, Any]], search: str, state: str, sort: TableSort, after: str | None, limit: int
) -> list[Mapping[str, Any]]:
    """The tables that are wanted, in order; one more than `limit` when there are more.

    Args:
        rows: All tables.
        search: Part of a name, small and capital letters alike; all when empty.
        state: Only those in this state; all when empty.
        sort: In which order.
        after: A `cursor`: those after it, also when that table is not there any more.
        limit: So many at most.

    Raises:
        ProblemError: 422 RPL-1500 for an `after` that is no cursor of this order.
    """
    wanted = search.casefold()
    found = [
        row
        for row in rows
        if (not state or row["state"] == state) and (not wanted or wanted in _searched(row).casefold())
    ]
    found.sort(key=lambda row: (*_key(row, sort), row["id"]))
    if after is not None:
        place = _parsed(after, sort)
        found = [row for row in found if (*_key(row, sort), row["id"]) > place]
    return found[: limit + 1]


def cursor(row: Mapping[str, Any], sort: TableSort) -> str:
    """By what `after` names a row of this order."""
    return base64.urlsafe_b64encode(json.dumps([sort, *_key(row, sort), row["id"]]).encode()).decode()


def _searched(row: Mapping[str, Any]) -> str:
    return f"{row['database']}.{row['name']}"


def _key(row: Mapping[str, Any], sort: TableSort) -> tuple[Any, ...]:
    lag = -float(row.get("lagSeconds") or 0.0)
    if sort is TableSort.URGENCY:
        asks = bool((row.get("pause") or {}).get("asks"))
        return (1 if asks else _URGENT.get(row["state"], 6), lag, row["name"])
    if sort is TableSort.LAG:
        return (lag, row["name"])
    if sort is TableSort.ROWS:
        return (-int(row.get("rows") or 0), row["name"])
    if sort is TableSort.RATE:
        return (-float(row.get("rowsPerSecond") or 0.0), row["name"])
    return (row["name"],)


def _parsed(after: str, sort: TableSort) -> tuple[Any, ...]:
    try:
        kind, *place = json.loads(base64.urlsafe_b64decode(after.encode()))
        expected = _key({"state": "", "name": "", "id": ""}, sort)
        fits = [
            isinstance(found, str) == isinstance(known, str)
            for found, known in zip(place, (*expected, ""), strict=True)
        ]
        if kind == sort and all(fits) and all(isinstance(part, (str, int, float)) for part in place):
            return tuple(place)
    except (ValueError, TypeError):
        pass
    raise ProblemError(
        422,
        NOT_VALID,
        "`after` is of no page of this list",
        hint="take it from the `Link` header, with the same `sort`",
        errors=[FieldProblem(pointer="/query/after", message="this value is not valid")],
    )
