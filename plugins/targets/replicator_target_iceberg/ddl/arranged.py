"""Keeps a table's partitions and sort order valid while its columns change: Iceberg computes both from columns."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from replicator_sdk.errors import SchemaDriftError
from replicator_target_iceberg.log.change import Change
from replicator_target_iceberg.schema.definition import Columns
from replicator_target_iceberg.schema.table_form import TableForm
from replicator_target_iceberg.schema.types import is_wider, same_type
from replicator_target_iceberg.table import NewTable


class Arranged:
    """The partitions and the sort order of a change in the making.

    Args:
        change: The commit.
        used: Returns the numbers of the partition specifications that files have; called only where an earlier one is concerned.
        table: The table's name, for errors.
        position: Of the change of structure, for errors.
    """

    def __init__(self, change: Change, used: Callable[[], set[int]], table: str, position: str | None) -> None:
        self._change, self._used, self._table, self._position = change, used, table, position

    def release(self, name: str) -> None:
        """See that a column can be taken out: the sort order ends before it from now on.

        Raises:
            SchemaDriftError: RPL-6428 when the table is partitioned by it.
        """
        source = self._source(name)
        current, used = self._change.partitioning, None
        for number, spec in self._change.specs().items():
            if source in spec.sources:
                used = self._used() if used is None and number != current.number else used
                if number == current.number or number in (used or ()):
                    raise self._partitioned(name)
        shorten_order(self._change, lambda one: one != source)

    def widen(self, name: str) -> None:
        """See that a column can have a wider type: values of partitions are written by the type that they have.

        Raises:
            SchemaDriftError: RPL-6428 when it is a decimal that the table is partitioned by.
        """
        column = self._column(name)
        is_decimal = isinstance(column["type"], str) and column["type"].startswith("decimal")
        for spec in self._change.specs().values() if is_decimal else ():
            if any(f.source == column["id"] and f.transform == "identity" for f in spec.fields):
                raise self._partitioned(name)

    def admit(self, name: str, former: str = "") -> None:
        """See that a column can have a name.

        Args:
            name: The name.
            former: The name that the column has now; empty for a new one.

        Raises:
            SchemaDriftError: RPL-6429 when a partition field of another column has it.
        """
        source = self._source(former) if former else None
        if any(f.name == name and f.source != source for spec in self._change.specs().values() for f in spec.fields):
            raise _name_taken(name, self._table, self._position)

    def _partitioned(self, name: str) -> SchemaDriftError:
        return partitioned_by(name, self._table, self._position)

    def _source(self, name: str) -> int:
        return int(self._column(name)["id"])

    def _column(self, name: str) -> dict[str, Any]:
        return next(column for column in self._change.schema["fields"] if column["name"] == name)


_AGAIN = (
    "create the table again: take it out of `tables`, and start the run; then `replicator table drop NAME TABLE`;"
    " then select it again, with another `partitioning` or with the column left out by `columns`"
)


def partitioned_by(name: str, table: str, position: str | None = None) -> SchemaDriftError:
    """The error for a column that Iceberg's partitions are computed from and that the source does not have so any more."""
    return SchemaDriftError(
        f"the table is partitioned by the column {name!r}, which can neither be taken out nor get another type",
        code="RPL-6428",
        table=table,
        position=position,
        hint=_AGAIN,
    )


def _name_taken(name: str, table: str, position: str | None = None) -> SchemaDriftError:
    return SchemaDriftError(
        f"the column {name!r} has the name of a partition field of the table, which Iceberg does not allow",
        code="RPL-6429",
        table=table,
        position=position,
        hint=_AGAIN,
    )


def shorten_order(change: Change, is_kept: Callable[[int], bool]) -> None:
    """Have the table's sort order end before the first column that does not stay."""
    order = change.sorting.fields
    names = {column["id"]: column["name"] for column in change.schema["fields"]}
    kept = list(itertools.takewhile(lambda f: is_kept(f.source), order))
    if len(kept) < len(order):
        plain = itertools.takewhile(lambda f: f.transform == "identity", kept)
        change.sort_by([(names[f.source], f.is_descending, f.nulls_first) for f in plain])


def replace_columns(
    change: Change,
    wanted: NewTable,
    form: TableForm,
    parse: Callable[[Any], Any],
    table: str,
    *,
    keeps_values: bool = False,
) -> None:
    """Give a table whose rows are all replaced the columns of another schema: new ones, but for those that partitions and order follow
    from; and the properties that name its keys to readers.

    Of a table with a branch for commits, and of one whose rows keep their values (`keeps_values`), those of the same type stay.

    Raises:
        SchemaDriftError: RPL-6428 when one that it is partitioned by is not there, or has another type; RPL-6429 when another has the
            name of a partition field.
    """
    schema = change.schema
    new = {column["name"]: column["type"] for column in wanted.columns["fields"]}
    partitioning = change.partitioning

    def fits(column: dict[str, Any]) -> bool:
        wanted_type = new.get(column["name"], "")
        is_widened = keeps_values and column["id"] not in partitioning.sources and is_wider(column["type"], wanted_type)
        return is_widened or same_type(column["type"], wanted_type)

    fitting = {column["id"]: column["name"] for column in schema["fields"] if fits(column)}
    partitions = partitioning.sources
    for column in schema["fields"]:
        if column["id"] in partitions and column["id"] not in fitting:
            raise partitioned_by(column["name"], table)
    for field in partitioning.fields:
        if field.name in new and fitting.get(field.source) != field.name:
            raise _name_taken(field.name, table)
    shorten_order(change, lambda source: source in fitting)
    # Columns are the table's: where `main` has rows of its own, these keep the values of each column that stays.
    keeps = keeps_values or change.is_beside_main
    bound = fitting.keys() if keeps else partitions | {f.source for f in change.sorting.fields}
    columns = Columns(schema, form)
    change.update_columns(columns.replace_all(wanted.columns, parse, frozenset(fitting[source] for source in bound)))
    change.update_columns(columns.identify_new(wanted.columns))
    change.name_keys(wanted.properties)
