"""Schema evolution: compares the schema of records with the known schema of their table.

Partitions contain a change of the source's schema at different times, and a topic may be read again from its beginning.
So a table's schema only grows: it becomes the union of both, and records of either fit it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from replicator_sdk.datatype import FLOAT32, FLOAT64, INT8, INT16, INT32, INT64, DataType, Decimal
from replicator_sdk.errors import DataError, SchemaDriftError
from replicator_sdk.event import Alter, AlterKind
from replicator_sdk.schema import Column, TableSchema, replace_columns
from replicator_source_kafka.formats.format import Part

_LADDERS = ((INT8, INT16, INT32, INT64), (FLOAT32, FLOAT64))
_MOST_DIGITS = 38
_BY_ITS_OWN = (
    "let the connector snapshot the table again; take it out of `tables` (by `exclude`) and replicate it by a pipeline of its own, with another"
    " `name` and target folder, and with `startFrom` at the time when that snapshot began"
)


@dataclass(frozen=True, slots=True)
class Fit:
    """The schema of a table after records with another schema.

    Attributes:
        schema: The new schema; the known one when there are no steps.
        alters: The steps from the known schema to it, to be emitted as an ALTER_TABLE before the records' changes.
    """

    schema: TableSchema
    alters: tuple[Alter, ...]


def reconcile(known: TableSchema, seen: TableSchema) -> Fit:
    """The steps that make the table `known` fit records with the schema `seen`.

    New columns are added after the others and may be NULL, types are only widened, and a column that records no longer have
    stays and becomes nullable. The order of columns and of the key's names is ignored.

    Raises:
        SchemaDriftError: When a type changes in another way, or the key changes.
    """
    if known == seen:
        return Fit(known, ())
    if set(known.primary_key) != set(seen.primary_key):
        raise _key_changed(known, seen)
    alters = tuple(step for column in known.columns for step in _steps(column, seen))
    added = tuple(Column(c.name, c.type, True, c.source_type, c.source_id) for c in seen.columns if c.name not in known)
    if not alters and not added:
        return Fit(known, ())
    later = {step.column.name: step.column for step in alters if step.column is not None}
    columns = tuple(later.get(c.name, c) for c in known.columns) + added
    steps = alters + tuple(Alter(AlterKind.ADD_COLUMN, column=column) for column in added)
    return Fit(replace_columns(known, columns), steps)


def _steps(column: Column, seen: TableSchema) -> Iterator[Alter]:
    """The steps of one known column."""
    found = next((c for c in seen.columns if c.name == column.name), None)
    kind = column.type if found is None else widened(column.type, found.type)
    if kind is None:
        raise SchemaDriftError(
            f"column {column.name!r} was {column.type} and is {found.type if found else ''} in newer records",
            code="RPL-3921",
            table=str(seen.table),
            hint=_BY_ITS_OWN,
        )
    if found is not None and str(kind) != str(column.type):
        retyped = Column(column.name, kind, column.nullable, found.source_type, column.source_id)
        yield Alter(AlterKind.RETYPE_COLUMN, column=retyped, previous=column)
        column = retyped
    if not column.nullable and (found is None or found.nullable):
        relaxed = Column(column.name, column.type, True, column.source_type, column.source_id)
        yield Alter(AlterKind.RELAX_COLUMN, column=relaxed, previous=column)


def widened(known: DataType, seen: DataType) -> DataType | None:
    """The type that holds the values of both; `known` if it already does; None if there is none."""
    if str(known) == str(seen) or known.arrow == seen.arrow:
        return known
    for ladder in _LADDERS:
        if known in ladder and seen in ladder:
            return ladder[max(ladder.index(known), ladder.index(seen))]
    if isinstance(known, Decimal) and isinstance(seen, Decimal):
        scale = max(known.scale, seen.scale)
        digits = max(known.precision - known.scale, seen.precision - seen.scale) + scale
        return Decimal(digits, scale) if digits <= _MOST_DIGITS else None
    # In JSON without a schema, whole numbers of a floating column have no decimal point.
    return known if known == FLOAT64 and seen in _LADDERS[0] else None


def conform(part: Part, schema: TableSchema) -> Part:
    """`part` with the columns and types of `schema`, a result of `reconcile`; columns it lacks are NULL.

    Raises:
        DataError: When a cast would change a value (a whole number beyond 2^53 in a floating column).
    """
    if part.schema == schema:
        return part
    row = _conform(part.row, schema)
    before = None if part.before is None else _conform(part.before, schema)
    rest = (part.before_is_full, part.timestamps, part.unchanged, part.transaction, part.truncates)
    return Part(schema, part.index, part.op, row, before, *rest)


def _conform(rows: pa.StructArray, schema: TableSchema) -> pa.StructArray:
    children = []
    for column in schema.columns:
        at = rows.type.get_field_index(column.name)
        if at < 0:
            children.append(pa.nulls(len(rows), column.type.arrow))
            continue
        try:
            children.append(rows.field(at).cast(column.type.arrow))
        except pa.ArrowInvalid:
            raise DataError(
                f"column {column.name!r} holds a value that {column.type} cannot hold exactly",
                code="RPL-3922",
                table=str(schema.table),
                hint="take the table out of `tables` (by `exclude`) and replicate it by a pipeline of its own, with another `name` and target"
                ' folder and a type in "columnTypes" that holds the value; it reads the topics from their beginning',
            ) from None
    mask = rows.is_null() if rows.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(schema.arrow), mask=mask)


def _key_changed(known: TableSchema, seen: TableSchema) -> SchemaDriftError:
    was, now = (", ".join(s.primary_key) or "no columns" for s in (known, seen))
    return SchemaDriftError(
        f"the key of the records was {was} and now is {now}",
        code="RPL-3920",
        table=str(seen.table),
        hint=_BY_ITS_OWN,
    )
