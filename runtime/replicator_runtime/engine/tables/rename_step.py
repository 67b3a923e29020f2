"""A table that the target is to rename, as it is stored until the target has done it."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from replicator_sdk import DDLEvent, DDLOperation, Position, TableId, TableSchema
from replicator_sdk.schema import rename_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from replicator_sdk import Offset

_ASIDE: Final = "_replicator_renamed_"


def aside(table: TableId) -> TableId:
    """The name that the target's table has while tables exchange their names."""
    return TableId(table.database, f"{_ASIDE}{zlib.crc32(str(table).encode()):08x}", table.schema)


def is_aside(table: TableId) -> bool:
    """Whether `aside` gives such names."""
    return table.table.startswith(_ASIDE)


@dataclass(frozen=True, slots=True)
class RenameStep:
    """One rename at the target.

    Attributes:
        former: The table's name at the target before the step.
        schema: Its schema under the name after the step.
        position: The table's position once the step is done.
        sequence_number: Of the source's event.
    """

    former: TableId
    schema: TableSchema
    position: Position
    sequence_number: int

    @property
    def event(self) -> DDLEvent:
        """What the target is given; the same after a crash."""
        return DDLEvent(
            self.position.offset,
            DDLOperation.RENAME_TABLE,
            self.schema.table,
            self.schema,
            self.former,
            sequence_number=self.sequence_number,
            position=self.position,
        )

    def to_json(self) -> dict[str, Any]:
        """The form stored."""
        return {
            "former": self.former.to_json(),
            "schema": self.schema.to_json(),
            "position": self.position.to_json(),
            "sequence": self.sequence_number,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any], read_offset: Callable[[Mapping[str, bytes]], Offset]) -> RenameStep:
        """The inverse of `to_json`."""
        return cls(
            TableId.from_json(value["former"]),
            TableSchema.from_json(value["schema"]),
            Position.from_json(value["position"], read_offset),
            value["sequence"],
        )


@dataclass(frozen=True, slots=True)
class Rename:
    """A table that the source renamed.

    Attributes:
        former: Its name before.
        table: Its name after.
    """

    former: TableId
    table: TableId


def rename_steps(
    renames: list[Rename],
    schemas: Mapping[TableId, TableSchema],
    aside: Callable[[TableId], TableId],
    positions: tuple[Position, Position],
    sequence_number: int,
) -> list[RenameStep]:
    """Renames that happened at once as steps, none of which takes a name that is in use.

    Args:
        renames: What the source renamed at once.
        schemas: Of each table, by the name before.
        aside: A name for a table, by the name before, that is in use nowhere.
        positions: Of a table that is put aside, which is below the other, and of one that has its last name.
        sequence_number: Of the last event.
    """
    before, after = positions
    left = {rename.former: rename.table for rename in renames}
    known, steps = dict(schemas), []

    def step(former: TableId, table: TableId, position: Position) -> None:
        known[table] = rename_table(known.pop(former), table)
        steps.append(RenameStep(former, known[table], position, sequence_number))

    while left:
        former = next((name for name, table in left.items() if table not in left), None)
        if former is None:  # all that is left exchange their names
            name, table = next(iter(left.items()))
            del left[name]
            left[aside(name)] = table
            step(name, aside(name), before)
        else:
            step(former, left.pop(former), after)
    return steps
