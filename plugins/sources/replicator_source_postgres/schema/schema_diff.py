"""The steps from the known schema to the one the log shows.

The log announces columns by name, type and order, without attribute numbers. While the catalogue still shows the same
columns, it provides the numbers, by which a rename is distinguished from a drop and an add. When the catalogue already
shows later changes, columns that exchanged their names are identified by their places, since the log announces columns in
the order of their numbers. What is still not certain is marked as needing a new snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from replicator_sdk.authoring.schema_diff import column_steps
from replicator_sdk.datatype import FLOAT32, FLOAT64, INT16, INT32, INT64, DataType, Decimal
from replicator_sdk.event import Alter, AlterKind
from replicator_sdk.schema import Column, TableSchema

_WIDER: frozenset[tuple[DataType, DataType]] = frozenset(
    {(INT16, INT32), (INT16, INT64), (INT32, INT64), (FLOAT32, FLOAT64)}
)
_TEXT = ("character varying", "text")


@dataclass(frozen=True, slots=True)
class Observed:
    """The columns the log shows, with identities.

    Attributes:
        columns: In the log's order.
        is_certain: Whether the identities are known rather than inferred.
    """

    columns: tuple[Column, ...]
    is_certain: bool


def identify(announced: Sequence[Column], catalogue: Sequence[Column], known: TableSchema) -> Observed:
    """Give the announced columns (which have no `source_id`) their identities.

    Args:
        announced: As the log shows them.
        catalogue: As the catalogue shows them now, in attribute order; empty when the table is gone.
        known: The schema known so far.
    """
    now = {column.name: column for column in catalogue}
    found = [_same(column, now.get(column.name)) for column in announced]
    ids = [int(column.source_id) for column in found if column is not None]
    by_name = {column.name: column for column in known.columns}
    if len(ids) == len(found) and ids == sorted(ids):
        columns = tuple(column for column in found if column is not None)
        return Observed(columns, is_certain=not _may_be_former(announced, columns, by_name))
    if exchanged := _exchanged(announced, catalogue, known):
        return Observed(exchanged, is_certain=True)
    inferred = [
        _same(column, by_name.get(column.name)) or current for column, current in zip(announced, found, strict=True)
    ]
    # An identity that no column has: the column is new, and what older rows hold in it is unknown.
    columns = tuple(c or replace(a, source_id=f"?{a.name}") for a, c in zip(announced, inferred, strict=True))
    unchanged = [(c.name, c.source_type) for c in announced] == [(c.name, c.source_type) for c in known.columns]
    return Observed(columns, is_certain=unchanged)


def _exchanged(
    announced: Sequence[Column], catalogue: Sequence[Column], known: TableSchema
) -> tuple[Column, ...] | None:
    """The known columns under the announced names, when the same names are announced in another order.

    No column was dropped or added since `known` when all its columns are still in the catalogue: numbers are not used
    twice. None when that is not so, or when the places cannot be compared.
    """
    names = [column.name for column in announced]
    if names == list(known.names) or sorted(names) != sorted(known.names):
        return None
    remaining = {column.source_id for column in catalogue}
    if not in_order(known) or any(column.source_id not in remaining for column in known.columns):
        return None
    places = zip(announced, known.columns, strict=True)
    return tuple(replace(a, nullable=k.nullable, source_id=k.source_id) for a, k in places)


def in_order(schema: TableSchema) -> bool:
    """Whether the columns have the order of their attribute numbers, as in the log; new columns without one are left out."""
    ids = [int(column.source_id) for column in schema.columns if column.source_id.isdecimal()]
    return ids == sorted(ids)


def _may_be_former(announced: Sequence[Column], now: Sequence[Column], known: Mapping[str, Column]) -> bool:
    """Whether the log may still show a column that another one of its name and type has replaced in the catalogue.

    Columns are announced in the order of their identities, so the former one is excluded where that order would be wrong.
    """
    former = [_same(column, known.get(column.name)) or current for column, current in zip(announced, now, strict=True)]
    ids = [int(column.source_id) if column.source_id.isdecimal() else 0 for column in former]
    return ids == sorted(ids) and any(old.source_id != new.source_id for old, new in zip(former, now, strict=True))


def _same(announced: Column, candidate: Column | None) -> Column | None:
    """`candidate`, when it has the announced type (as written, modifier included)."""
    return candidate if candidate is not None and candidate.source_type == announced.source_type else None


def compare(known: TableSchema, now: TableSchema) -> tuple[Alter, ...]:
    """The steps from `known` to `now`; columns of one identity are the same column."""
    now_named = {_identity(column): column.name for column in now.columns}
    renamed = {old.name: now_named[_identity(old)] for old in known.columns if _identity(old) in now_named}
    steps = column_steps(known, now, {name: was for was, name in renamed.items()})
    # The log announces the key's columns without their order in the key.
    if {renamed.get(name, name) for name in known.primary_key} != set(now.primary_key):
        steps.append(Alter(AlterKind.CHANGE_KEY))
    return tuple(steps)


def _identity(column: Column) -> str:
    return column.source_id or column.name


def keeps_values(old: Column, new: Column) -> bool:
    """Whether a change of type left every value unchanged, so that no row has to be copied again."""
    if old.type == new.type:
        return old.source_type == new.source_type or (_is_text(old) and _is_text(new)) or isinstance(old.type, Decimal)
    if isinstance(old.type, Decimal) and isinstance(new.type, Decimal):
        digits = new.type.precision - new.type.scale >= old.type.precision - old.type.scale
        return digits and new.type.scale >= old.type.scale
    return (old.type, new.type) in _WIDER


def _is_text(column: Column) -> bool:
    return column.source_type.startswith(_TEXT)
