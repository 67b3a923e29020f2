"""Tracks the schemas of the captured tables: compares relation messages with the known schemas, and reports what changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import pyarrow as pa

from replicator_sdk.authoring.log_position import StructureChange
from replicator_sdk.config import OutOfRange
from replicator_sdk.errors import SchemaDriftError
from replicator_sdk.event import Alter, AlterKind, DDLOperation
from replicator_sdk.schema import Column, TableId, TableSchema, rename_table, replace_columns
from replicator_source_postgres.catalogue import Catalogue, ColumnFacts, TableFacts
from replicator_source_postgres.pgoutput.images import RelationPlan
from replicator_source_postgres.pgoutput.message import Relation
from replicator_source_postgres.schema.emitted_changes import EmittedChange
from replicator_source_postgres.schema.schema_diff import Observed, compare, identify, in_order, keeps_values
from replicator_source_postgres.types.array import split_arrays
from replicator_source_postgres.types.convert import Converter
from replicator_source_postgres.types.mapping import standard_type
from replicator_source_postgres.types.out_of_range import column_policy
from replicator_source_postgres.unlogged.unlogged_changes import UnloggedChanges


class SchemaTracker:
    """The captured tables at the position that is being read; used by the reader's thread.

    A table is known by its identifier. The names in the log are not looked at: they are those of the moment when a row was
    written, and a rename is emitted where the catalogue shows it (`CatalogueChanges`).

    Args:
        catalogue: Over the reader's own connection.
        unlogged: Detects rewritten tables.
        database: The database's name in table identifiers.
        tables: The schemas as of the offset reading starts from.
        out_of_range: What happens to values the standard types cannot hold.
        known: The identifiers of those tables that were captured before.
        narrowed: Tables of which only columns selected by name are captured.
        marks_refused: As `EventReaderDefinition.marks_refused`.

    Attributes:
        oids: The captured tables by identifier.
        renamed: Those that were renamed since the decoder learned their names.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        unlogged: UnloggedChanges,
        database: str,
        tables: Iterable[TableSchema],
        out_of_range: OutOfRange,
        known: Mapping[TableId, int],
        narrowed: Iterable[TableId] = (),
        *,
        marks_refused: bool = False,
    ) -> None:
        self._catalogue = catalogue
        self._unlogged = unlogged
        self._database = database
        self.oids = {oid: table for table, oid in known.items()}
        self.renamed: set[int] = set()
        self._waiting: dict[int, TableId] = {}
        """Names that tables have while the copy of another table has them here; these keep the names in `oids`."""
        self._narrowed = set(narrowed)
        self._out_of_range = out_of_range
        self._marks_refused = marks_refused
        self.schemas = {schema.table: self._with_identities(schema, known.get(schema.table)) for schema in tables}
        self.replaced: dict[TableId, Counter[str]] = {table: Counter() for table in self.schemas}

    def _with_identities(self, schema: TableSchema, oid: int | None) -> TableSchema:
        """The schema with column identities from the catalogue."""
        facts = None if oid is None else self._catalogue.by_oid(oid)
        if facts is None:
            return schema
        numbers = {c.name: str(c.attnum) for c in facts.columns}
        return replace_columns(
            schema, (replace(c, source_id=c.source_id or numbers.get(c.name, "")) for c in schema.columns)
        )

    def table_of(self, relation: Relation) -> TableId | None:
        """The captured table that a relation is; None when it is not captured."""
        return self.oids.get(relation.oid)

    def remove(self, oid: int) -> None:
        """Remove a dropped table: a later table of its name is another one."""
        self._waiting.pop(oid, None)
        self.schemas.pop(self.oids.pop(oid), None)

    def on_relation(self, relation: Relation, report: Callable[[StructureChange], None]) -> RelationPlan | None:
        """Plan how to decode `relation`; every schema change it shows is reported first.

        Returns:
            None when the table is not captured.
        """
        table = self.table_of(relation) or self._replaced(relation, report)
        if table is None:
            return None
        facts = self._catalogue.by_oid(relation.oid)
        now, certain = self._observe(relation, facts, self.schemas[table])
        self._apply(now, facts, report, certain=certain)
        return self._plan(relation, self.schemas[table])

    def _replaced(self, relation: Relation, report: Callable[[StructureChange], None]) -> TableId | None:
        """The captured table whose name an unknown one has, unless that one exists and has another name by now.

        The identifier is stored with the table's next copy, so that every replay reports the same until then.
        """
        named = TableId(self._database, relation.table, relation.schema)
        if named not in self.schemas:
            return None
        before = next((oid for oid, table in self.oids.items() if table == named), None) or self._copied(named)
        if before is not None and before != relation.oid:
            if self._catalogue.by_oid(before) is not None:
                return None
            self.oids.pop(before, None)
            report(StructureChange(DDLOperation.TRUNCATE_TABLE, named, self.schemas[named], needs_snapshot=True))
            # What is emitted from here on is of the later table, which may have been copied already.
            self.schemas[named] = replace(self.schemas[named], source_id=str(relation.oid))
        self.oids[relation.oid] = named
        return named

    def _copied(self, table: TableId) -> int | None:
        """The identifier of the table that was copied under this name; None where an earlier version did not store it."""
        return int(self.schemas[table].source_id) if self.schemas[table].source_id else None

    def copied_twice(self) -> dict[TableId, TableId]:
        """Names under which a table was copied before it was copied under another one, which is the one given with it."""
        found = {}
        for table in self.schemas:
            now = self.oids.get(self._copied(table) or 0, table)
            if now != table:
                found[table] = now
        return found

    def facts_of(self, oid: int) -> TableFacts | None:
        """What the catalogue shows of a table now; None when it is gone."""
        return self._catalogue.by_oid(oid)

    def refresh(self, oid: int, facts: TableFacts | None, report: Callable[[StructureChange], None]) -> None:
        """Report the columns that the catalogue showed; called once everything written before that has been read.

        The log announces a schema change with the next row only, which may never be written.
        """
        table = self.oids.get(oid)
        if facts is not None and table is not None:
            self._apply(self._narrow(self._catalogue.schema(facts, table)), facts, report, certain=True)

    def renames(self) -> list[dict[int, tuple[TableId, TableId]]]:
        """The tables that the catalogue shows under other names, by identifier: the name before and the name now.

        Those that take each other's names are together.
        """
        names = self._catalogue.names(list(self.oids))
        left = {oid: (self.name_of(oid), now) for oid, now in sorted(names.items()) if now != self.oids[oid]}
        groups = []
        while left:
            waiting, group = [next(iter(left))], {}
            while waiting:
                oid = waiting.pop()
                group[oid] = before, now = left.pop(oid)
                waiting += [o for o, (b, n) in left.items() if (b == now or n == before) and o not in waiting]
            groups.append(group)
        return groups

    def name_of(self, oid: int) -> TableId:
        """The name that a captured table has, by what was emitted or could not be emitted so far."""
        return self._waiting.get(oid, self.oids[oid])

    def are_free(self, names: Iterable[TableId]) -> bool:
        """Whether no captured table that is known to exist has one of these names."""
        return not set(names) & set(self.oids.values())

    def is_pending(self, oid: int) -> bool:
        """Whether the catalogue shows other columns than the log has shown so far."""
        facts, table = self._catalogue.by_oid(oid), self.oids.get(oid)
        if facts is None or table is None:
            return True
        known = self.schemas[table]
        now = self._catalogue.schema(facts, table)
        return bool(compare(known, narrow(now, known) if table in self._narrowed else now))

    def replay(self, change: EmittedChange, report: Callable[[StructureChange], None]) -> None:
        """Report what an earlier run emitted from the catalogue, whatever the catalogue shows now."""
        now = change.schema.table
        if now != change.before and self.oids.get(change.oid) == change.before:
            self.rename({change.oid: (change.before, now)}, report)
        if (table := self.oids.get(change.oid)) is not None:
            facts = self._catalogue.by_oid(change.oid)
            self._apply(rename_table(change.schema, table), facts, report, certain=not change.needs_snapshot)

    def rename(self, names: Mapping[int, tuple[TableId, TableId]], report: Callable[[StructureChange], None]) -> None:
        """Rename tables at once, each from the first name to the second; those that are not captured are left out.

        A table whose new name is another one's here, which was copied under it later, keeps its former name until it has
        another: the runtime has one table of a name.
        """
        wanted = {oid: now for oid, (before, now) in names.items() if self._can_leave(oid, before)}
        while taken := [oid for oid, now in wanted.items() if now in self._names_without(wanted)]:
            for oid in taken:
                self._waiting[oid] = wanted.pop(oid)
        moved = {}
        for oid, now in wanted.items():
            self._waiting.pop(oid, None)
            if (before := self.oids[oid]) != now:
                moved[oid] = (before, rename_table(self.schemas.pop(before), now), self.replaced.pop(before))
        narrowed = {schema.table for before, schema, _ in moved.values() if before in self._narrowed}
        self._narrowed = self._narrowed - {before for before, _, _ in moved.values()} | narrowed
        for oid, (before, schema, counter) in moved.items():
            self.oids[oid] = schema.table
            self.renamed.add(oid)
            self.schemas[schema.table], self.replaced[schema.table] = schema, counter
            report(StructureChange(DDLOperation.RENAME_TABLE, schema.table, schema, previous=before))

    def _can_leave(self, oid: int, before: TableId) -> bool:
        return oid in self.oids and self.name_of(oid) == before and self.oids[oid] in self.schemas

    def _names_without(self, leaving: Iterable[int]) -> set[TableId]:
        """The names here of all tables and copies but those of `leaving`."""
        return self.schemas.keys() - {self.oids[oid] for oid in leaving}

    def _apply(
        self,
        now: TableSchema,
        facts: TableFacts | None,
        report: Callable[[StructureChange], None],
        *,
        certain: bool,
    ) -> None:
        """Report the steps from the known schema to `now`, which becomes the known schema.

        Columns that were identified by name and then have an impossible order exchanged their names: there are no steps, and
        the table needs a snapshot.
        """
        now = replace(now, source_id=self.schemas[now.table].source_id)
        alters = compare(self.schemas[now.table], now)
        if not alters and (certain or in_order(now)):
            return
        alters = tuple(self._with_default(alter, facts) for alter in alters)
        change = StructureChange(DDLOperation.ALTER_TABLE, now.table, now, alters=alters)
        change = replace(change, needs_snapshot=not certain or self._rewrote(change, facts))
        self.schemas[now.table] = now
        if facts is not None and change.needs_snapshot:
            self._unlogged.mark_reported(facts.oid)
        report(change)

    def _observe(self, relation: Relation, facts: TableFacts | None, known: TableSchema) -> tuple[TableSchema, bool]:
        """The table's schema as the log shows it, narrowed to the captured columns."""
        catalogue = tuple(map(self._catalogue.column, facts.columns)) if facts else ()
        generated = facts.generated if facts else ()
        announced = [
            Column(
                c.name,
                standard_type(c.type_oid, c.typmod, self._catalogue.type_of),
                source_type=self._catalogue.type_name(c.type_oid, c.typmod),
            )
            for c in relation.columns
            if c.name not in generated
        ]
        observed = identify(announced, catalogue, known)
        key = self._key(relation, facts, known, observed)
        return self._narrow(TableSchema(known.table, observed.columns, key, known.source_id)), observed.is_certain

    def _narrow(self, now: TableSchema) -> TableSchema:
        """Only the captured columns, where the pipeline selects them by name; the key always."""
        return narrow(now, self.schemas[now.table]) if now.table in self._narrowed else now

    def _key(
        self, relation: Relation, facts: TableFacts | None, known: TableSchema, observed: Observed
    ) -> tuple[str, ...]:
        """The key's names now, in the order known before where it is the same key."""
        if relation.identity == "f":
            names = facts.primary_key if facts else known.primary_key
        else:
            names = tuple(c.name for c in relation.columns if c.is_key)
            if facts and set(names) == set(facts.key):
                names = facts.key
        there = {column.name for column in observed.columns}
        return tuple(name for name in names if name in there)

    def _with_default(self, alter: Alter, facts: TableFacts | None) -> Alter:
        """An added column with the value that older rows have in it."""
        column = alter.column
        if alter.kind is not AlterKind.ADD_COLUMN or column is None:
            return alter
        live = _catalogue_column(facts, column)
        if live is None or live.missing is None:
            return alter
        policy = column_policy(self._out_of_range, str(facts), column.name, Counter())
        _, _, elements = split_arrays(pa.array([live.missing]), policy)
        converter = Converter(TableId(self._database, facts.name if facts else ""), column, self._out_of_range)
        return replace(alter, default=converter.convert(elements.cast(pa.binary()))[0].as_py())

    def _rewrote(self, change: StructureChange, facts: TableFacts | None) -> bool:
        """Whether rows may now hold values that the log did not carry."""
        if facts is None:
            return False
        if self._unlogged.difference(facts.oid) is not None:
            return True
        for alter in change.alters:
            if alter.kind is AlterKind.ADD_COLUMN and alter.column is not None:
                live = _catalogue_column(facts, alter.column)
                filled = live is not None and live.missing is None and (live.has_default or live.not_null)
                if filled:
                    return True
            if (
                alter.kind is AlterKind.RETYPE_COLUMN
                and alter.previous is not None
                and alter.column is not None
                and not keeps_values(alter.previous, alter.column)
            ):
                return True
        return False

    def _plan(self, relation: Relation, schema: TableSchema) -> RelationPlan:
        places = {column.name: rank for rank, column in enumerate(relation.columns)}
        if missing := [name for name in schema.names if name not in places]:
            raise SchemaDriftError(
                f"the log does not carry the columns {missing}",
                code="RPL-3401",
                table=str(schema.table),
                hint="remove the column list from the publication, or exclude these columns from the pipeline",
            )
        replaced = self.replaced.setdefault(schema.table, Counter())
        return RelationPlan(
            schema,
            tuple(places[name] for name in schema.names),
            tuple(
                Converter(
                    schema.table,
                    c,
                    self._out_of_range,
                    replaced,
                    self._marks_refused and c.name not in schema.primary_key,
                )
                for c in schema.columns
            ),
        )


def _catalogue_column(facts: TableFacts | None, column: Column) -> ColumnFacts | None:
    if facts is None:
        return None
    return next((c for c in facts.columns if str(c.attnum) == column.source_id), None)


def narrow(now: TableSchema, known: TableSchema) -> TableSchema:
    """`now` with the columns `known` has, whatever their names, and its key."""
    wanted = {column.source_id for column in known.columns} | {now[name].source_id for name in now.primary_key}
    return replace_columns(now, (column for column in now.columns if column.source_id in wanted))
