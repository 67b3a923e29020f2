"""An ALTER_TABLE as statements, each with the table's columns after it."""
# ruff: noqa: S608 - names pass through `sql.text.name`, values through `text` or are numbers

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from replicator_sdk.errors import BugError, SchemaDriftError, SnapshotNeededError
from replicator_sdk.event import Alter, AlterKind, DDLEvent
from replicator_sdk.schema import Column
from replicator_target_bigquery.config import IS_DELETED, SEQUENCE, SchemaChanges
from replicator_target_bigquery.ddl.conversions import converted, literal, widens
from replicator_target_bigquery.schema.fields import Field
from replicator_target_bigquery.schema.names import column_name, column_names
from replicator_target_bigquery.schema.width import require_width
from replicator_target_bigquery.sql.comparison import KeyColumn, same_key
from replicator_target_bigquery.sql.pruning import Pruning
from replicator_target_bigquery.sql.text import name
from replicator_target_bigquery.tables.target_table import TargetTable


@dataclass(frozen=True, slots=True)
class Step:
    """One statement.

    Attributes:
        sql: The statement. Running it twice in a row does no harm, unless the columns show that it has run.
        after: The table's columns once it has run.
        touches: Columns that must not be clustered by when it runs.
    """

    sql: str
    after: tuple[Field, ...]
    touches: tuple[str, ...] = ()


class Alteration:
    """Creates the steps of one event; used once.

    A column of the target is the source's, or a former one that `schemaChanges` keeps; only a former one is renamed for
    a new column of its name. Renaming the source's own would hide its values.

    Args:
        table: The table.
        event: What happened at the source.
        before: The target's columns before it.
        begun: The revision under which it was begun, the same at every replay.

    Attributes:
        kept: Names, in lower case, of the former columns that the table has once all steps ran.
    """

    def __init__(self, table: TargetTable, event: DDLEvent, before: tuple[Field, ...], begun: int) -> None:
        self._sql = table.ref.sql
        self._event = event
        self._config = table.session.config
        self._layout = table.session.layout
        self._policy = self._config.schema_changes
        self._columns = before
        found = table.found()
        self._required_filter = found.required_filter if found is not None else None
        self._begun = begun
        self.kept = set(table.state().kept)
        self._steps: list[Step] = []
        if event.schema is not None:
            column_names(event.schema, self._config.metadata_columns)  # refuses twins

    def steps(self) -> list[Step]:
        """All steps, in order.

        Raises:
            NeedsUserError: When the table would have more columns than BigQuery's tables have.
            SchemaDriftError: When the policy forbids one.
            SnapshotNeededError: When the target's columns are not those from which the source's change starts.
        """
        for alter in self._event.alters:
            self._take(alter)
        if any(alter.kind is AlterKind.CHANGE_KEY for alter in self._event.alters):
            self._refuse_inexact_key()
            self._forget_twins()
        return self._steps

    def _take(self, alter: Alter) -> None:
        if alter.kind in {AlterKind.TIGHTEN_COLUMN, AlterKind.CHANGE_KEY}:
            return  # columns may hold NULL at the target; keys are compared, not declared
        if alter.kind is AlterKind.DROP_COLUMN:
            assert alter.previous is not None
            if (dropped := self._find(column_name(alter.previous.name))) is not None:
                self._drop(dropped)
            return
        assert alter.column is not None
        if alter.kind is AlterKind.ADD_COLUMN:
            self._add(alter.column, alter.default)
        elif alter.kind is AlterKind.RELAX_COLUMN:
            self._relax(self._must_have(alter.column.name))
        elif alter.kind is AlterKind.RENAME_COLUMN:
            assert alter.previous is not None
            self._rename(self._must_have(alter.previous.name), alter.column)
        elif alter.kind is AlterKind.RETYPE_COLUMN:
            self._retype(self._must_have(alter.column.name), alter.column)
        else:
            raise BugError(f"unknown step {alter.kind}", code="RPL-6560", table=str(self._event.table))

    def _refuse_inexact_key(self) -> None:
        """Native arrays and JSON find no row again: two keys of the source may be one in them.

        Raises:
            SnapshotNeededError: When a column of the new key has such a form.
        """
        keys = self._event.schema.key_columns() if self._event.schema is not None else ()
        found = [there for c in keys if (there := self._find(column_name(c.name))) is not None]
        inexact = [there.name for there in found if there.mode == "REPEATED" or there.type == "JSON"]
        if inexact:
            raise SnapshotNeededError(
                f"column {inexact[0]} joins the key, and its form at BigQuery does not hold every value as it is",
                code="RPL-6566",
                table=str(self._event.table),
                position=str(self._event.position),
                hint="nothing to do: the table is copied again",
            )

    def _forget_twins(self) -> None:
        """Delete rows that are marked as deleted and whose new key another row has; a MERGE would revive them as duplicates."""
        schema = self._event.schema
        if not self._config.soft_deletes or schema is None or not schema.primary_key:
            return
        found = (self._find(column_name(c.name)) for c in schema.key_columns())
        keys = tuple(KeyColumn(column, nullable=True) for column in found if column is not None)
        later = f"O.{name(IS_DELETED)} IS NOT TRUE OR O.{name(SEQUENCE)} > T.{name(SEQUENCE)}"
        ours, theirs = (
            "".join(f" AND {condition}" for condition in Pruning((), self._required_filter).conditions(alias))
            for alias in "TO"
        )
        twin = f"SELECT 1 FROM {self._sql} AS O WHERE {same_key(keys, 'O', 'T')} AND ({later}){theirs}"
        sql = f"DELETE FROM {self._sql} AS T WHERE T.{name(IS_DELETED)} IS TRUE AND EXISTS ({twin}){ours}"
        self._steps.append(Step(sql, self._columns))

    def _add(self, column: Column, default: Any) -> None:
        made = self._made(column, column_name(column.name))
        self._make_room(made.name)
        self._alter(f"ADD COLUMN {name(made.name)} {made.sql}", (*self._columns, made))
        if default is not None and not self._event.needs_snapshot:
            self._fill(made, self._literal(made, default))

    def _made(self, column: Column, new: str, *, like: Field | None = None) -> Field:
        """The column at the target under the name `new`; arrays and JSON keep the form of `like`."""
        schema = self._event.schema
        is_key = schema is not None and column.name in schema.primary_key
        return self._layout.column(column, new, is_key=is_key, like=like)

    def _make_room(self, new: str) -> None:
        """Free the name `new` for a new column.

        Raises:
            SnapshotNeededError: When a column of the source has that name already.
        """
        there = self._find(new)
        if there is None:
            return
        if there.name.lower() not in self.kept:
            raise SnapshotNeededError(
                f"the source adds column {new}, which the target's table has already",
                code="RPL-6564",
                table=str(self._event.table),
                position=str(self._event.position),
                hint="nothing to do: the table is copied again",
            )
        self._set_aside(there)

    def _drop(self, column: Field) -> None:
        self._refuse_partition(column)
        self.kept.discard(column.name.lower())
        self._alter(f"DROP COLUMN {name(column.name)}", tuple(c for c in self._columns if c != column), (column.name,))

    def _relax(self, column: Field) -> None:
        if column.mode == "REQUIRED":
            relaxed = replace(column, mode="NULLABLE")
            self._alter(f"ALTER COLUMN {name(column.name)} DROP NOT NULL", self._swapped(column, relaxed))

    def _rename(self, old: Field, column: Column) -> None:
        new = column_name(column.name)
        if new == old.name:
            return
        if self._policy is SchemaChanges.FAIL:
            raise self._forbidden(f"the source renames column {old.name} to {new}")
        if new.lower() == old.name.lower():  # BigQuery takes both for one name
            self._rename_to(self._set_aside(old), new)
            return
        self._make_room(new)
        if self._policy is SchemaChanges.REBUILD:
            self._rename_to(old, new)
            return
        self._relax(old)
        made = self._made(column, new, like=old)
        self._alter(f"ADD COLUMN {name(new)} {made.sql}", (*self._columns, made))
        self._fill(made, name(old.name))
        self.kept.add(old.name.lower())

    def _retype(self, old: Field, column: Column) -> None:
        made = self._made(column, old.name, like=old)
        if old.holds(made):
            return
        if widens(old, made):
            changed = replace(old, type=made.type, precision=made.precision, scale=made.scale)
            self._alter(
                f"ALTER COLUMN {name(old.name)} SET DATA TYPE {made.sql}", self._swapped(old, changed), (old.name,)
            )
            return
        if self._policy is SchemaChanges.FAIL:
            raise self._forbidden(f"the source gives column {old.name} another type ({made.sql} for {old.sql})")
        kept = self._set_aside(old)
        self._alter(f"ADD COLUMN {name(made.name)} {made.sql}", (*self._columns, made))
        if not self._event.needs_snapshot:
            self._fill(made, converted(kept, made))
        if self._policy is SchemaChanges.REBUILD:
            self._drop(kept)

    def _set_aside(self, column: Field) -> Field:
        """Give a column another name, under which it keeps its values."""
        taken = {c.name.lower() for c in self._columns}
        names = (f"{column.name}_before_{self._begun + n}" for n in range(len(taken) + 1))
        kept = next(n for n in names if n.lower() not in taken)
        self._relax(column)
        present = self._find(column.name)
        assert present is not None
        renamed = self._rename_to(present, kept)
        self.kept.add(kept.lower())
        return renamed

    def _rename_to(self, old: Field, new: str) -> Field:
        self._refuse_partition(old)
        self.kept.discard(old.name.lower())
        renamed = replace(old, name=new)
        self._alter(f"RENAME COLUMN {name(old.name)} TO {name(new)}", self._swapped(old, renamed), (old.name,))
        return renamed

    def _fill(self, column: Field, value: str) -> None:
        """Give existing rows a value; the columns do not change, so a replay may repeat it."""
        conditions = Pruning((), self._required_filter).conditions("T") or ["TRUE"]
        sql = f"UPDATE {self._sql} AS T SET {name(column.name)} = {value} WHERE {' AND '.join(conditions)}"
        self._steps.append(Step(sql, self._columns))

    def _alter(self, what: str, after: tuple[Field, ...], touches: tuple[str, ...] = ()) -> None:
        if len(after) > len(self._columns):
            require_width(after, "the table, with the columns that `schemaChanges` keeps,", self._event.table)
        self._columns = after
        self._steps.append(Step(f"ALTER TABLE {self._sql} {what}", after, touches))

    def _swapped(self, old: Field, new: Field) -> tuple[Field, ...]:
        return tuple(new if c == old else c for c in self._columns)

    def _find(self, column: str) -> Field | None:
        return next((c for c in self._columns if c.name.lower() == column.lower()), None)

    def _must_have(self, source_name: str) -> Field:
        found = self._find(column_name(source_name))
        if found is None:
            raise SnapshotNeededError(
                f"the target's table has no column {column_name(source_name)} to change",
                code="RPL-6561",
                table=str(self._event.table),
                position=str(self._event.position),
                hint="nothing to do: the table is copied again",
            )
        return found

    def _refuse_partition(self, column: Field) -> None:
        if self._required_filter is not None and column.name == self._required_filter.name:
            raise self._forbidden(
                f"the table is partitioned by column {column.name}, which BigQuery cannot drop or rename"
            )

    def _forbidden(self, what: str) -> SchemaDriftError:
        return SchemaDriftError(
            what,
            code="RPL-6562",
            table=str(self._event.table),
            position=str(self._event.position),
            hint="set `schemaChanges` to newColumn or rebuild, copy the table again: `replicator table resync NAME TABLE --in-place`, or leave the column out by `columns`",
        )

    def _literal(self, column: Field, value: Any) -> str:
        if (found := literal(column, value)) is not None:
            return found
        raise SchemaDriftError(
            f"column {column.name} is added with a default of a nested type",
            code="RPL-6563",
            table=str(self._event.table),
            position=str(self._event.position),
            hint="copy the table again: `replicator table resync NAME TABLE --in-place`",
        )
