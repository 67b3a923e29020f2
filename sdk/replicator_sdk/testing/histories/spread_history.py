"""Random histories of a table without a key whose changes are spread over partitions, and read in windows of some of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from replicator_sdk.datatype import INT64, STRING
from replicator_sdk.event import DMLOperation
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_sdk.testing.histories.reference import RowChange

_NAMES: Final = ("a", "b", None)
_NUMBERS: Final = 3


@dataclass(frozen=True, slots=True)
class Window:
    """What is read at once.

    Attributes:
        changes: The changes; those of one partition are in order.
        rows: What the table holds then: of each row as many copies as inserts were read beyond removals, if any.
    """

    changes: list[RowChange]
    rows: list[dict[str, Any]]


def spread_schema(table: TableId) -> TableSchema:
    """The schema of the histories' table."""
    return TableSchema(table, (Column("name", STRING), Column("number", INT64)))


def spread_history(
    chance: Random, schema: TableSchema, *, changes: int = 30, partitions: int = 3, most: int = 1 << 30
) -> Iterator[Window]:
    """The windows of a random history of a table that starts empty; after the last one all changes were read.

    Args:
        chance: Decides everything.
        schema: From `spread_schema`.
        changes: How many there are.
        partitions: Over how many partitions they are spread.
        most: How many changes of a partition a window has at most.
    """
    spread: list[list[RowChange]] = [[] for _ in range(partitions)]
    for change in _history(chance, schema, changes):
        chance.choice(spread).append(change)
    net: Counter[tuple[Any, ...]] = Counter()
    while any(spread):
        window = []
        for partition in spread:
            size = min(most, chance.choice((0, 1, 2, len(partition))))
            window += partition[:size]
            del partition[:size]
        if window:
            for change in window:
                net.update([tuple(change.row.values())] if change.row else [])
                net.subtract([tuple(change.before.values())] if change.before else [])
            yield Window(window, [dict(zip(schema.names, row, strict=True)) for row in net.elements()])


def _history(chance: Random, schema: TableSchema, changes: int) -> Iterator[RowChange]:
    """Changes in the source's order: each removal and each update is of a row that is there."""
    rows: list[dict[str, Any]] = []
    for _ in range(changes):
        row = {"name": chance.choice(_NAMES), "number": chance.randrange(_NUMBERS)}
        before = rows.pop(chance.randrange(len(rows))) if rows and chance.random() < 0.6 else None
        changed = chance.choice((DMLOperation.UPDATE, DMLOperation.DELETE))
        operation = DMLOperation.INSERT if before is None else changed
        if operation is not DMLOperation.DELETE:
            rows.append(row)
        after = {} if operation is DMLOperation.DELETE else row
        yield RowChange(schema, operation, after, before, before_is_full=before is not None)
