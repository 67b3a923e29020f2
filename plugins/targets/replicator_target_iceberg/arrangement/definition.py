"""The partitions and the sort order of a new table, in Iceberg's JSON form, from the settings and the table's columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from replicator_sdk.errors import NeedsUserError
from replicator_target_iceberg.arrangement.partitioning import Partitioning
from replicator_target_iceberg.arrangement.terms import PartitionTerm, SortTerm
from replicator_target_iceberg.arrangement.transforms import Transform

_FIRST_FIELD: Final = 1000  # Iceberg's own first number
_ENDINGS: Final = {"bucket": "_bucket", "truncate": "_trunc"}


def new_partitioning(schema: dict[str, Any], terms: Iterable[PartitionTerm], table: str) -> dict[str, Any]:
    """The specification of a new table.

    Args:
        schema: The table's columns in Iceberg's JSON form.
        terms: What the settings say of it.
        table: The table's name, for errors.

    Raises:
        NeedsUserError: RPL-3430 when a column is not there, or of a type that the transform does not take.
    """
    columns = {column["name"]: column for column in schema["fields"]}
    fields: list[dict[str, Any]] = []
    taken = set(columns)
    for number, term in enumerate(terms, _FIRST_FIELD):
        transform = Transform.parse(term.transform)
        column = columns.get(term.column)
        if column is None or transform is None or not transform.takes(column["type"]):
            raise _refused("partitioning", term.transform, term.column, column, table)
        name = _name(term, transform, taken)
        taken.add(name)
        fields.append({"name": name, "transform": term.transform, "source-id": column["id"], "field-id": number})
    return {"spec-id": 0, "fields": fields}


def _name(term: PartitionTerm, transform: Transform, taken: set[str]) -> str:
    """As the library names it, unless a column has that name."""
    if transform.name == "identity":
        return term.column
    name = term.column + _ENDINGS.get(transform.name, f"_{transform.name}")
    while name in taken:
        name += "_"
    return name


def new_sorting(schema: dict[str, Any], terms: Sequence[SortTerm], table: str) -> dict[str, Any]:
    """The sort order of a new table.

    Raises:
        NeedsUserError: RPL-3430 when a column is not there, or of a type that files are not sorted by.
    """
    columns = {column["name"]: column for column in schema["fields"]}
    fields = []
    for term in terms:
        column = columns.get(term.column)
        if column is None or not Transform("identity").takes(column["type"]):
            raise _refused("sortOrder", "identity", term.column, column, table)
        fields.append(
            {
                "transform": "identity",
                "source-id": column["id"],
                "direction": term.direction,
                "null-order": term.nulls,
            }
        )
    return {"order-id": 1 if fields else 0, "fields": fields}


def _refused(setting: str, transform: str, name: str, column: dict[str, Any] | None, table: str) -> NeedsUserError:
    if column is None:
        why = f"the column {name!r} of `{setting}` is not in the table"
    else:
        kind = column["type"] if isinstance(column["type"], str) else column["type"]["type"]
        what = "values" if transform == "identity" else transform
        why = f"`{setting}` cannot use {what} of the column {name!r}, whose type in Iceberg is {kind}"
    return NeedsUserError(
        why, code="RPL-3430", table=table, hint=f"correct the patterns or columns of `{setting}`, and start again"
    )


def described(partitioning: Partitioning, columns: Iterable[dict[str, Any]]) -> tuple[PartitionTerm, ...]:
    """What a table's specification is in terms of the settings."""
    names = {column["id"]: column["name"] for column in columns}
    return tuple(
        PartitionTerm(f.transform, names.get(f.source, "")) for f in partitioning.fields if f.transform != "void"
    )
