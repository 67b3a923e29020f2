"""Tracks the schemas of the captured tables: compares relation messages with the known schemas, and reports what changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
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
from replicator_source_postgres.relation_ids import RelationIds
from replicator_source_postgres.schema.emitted_changes import EmittedChange
from replicator_source_postgres.schema.schema_diff import Observed, compare, identify, in_order, keeps_values
from replicator_source_postgres.types.array import split_arrays
from replicator_source_postgres.types.convert import Converter
from replicator_source_postgres.types.mapping import standard_type
from replicator_source_postgres.types.out_of_range import column_policy
from replicator_source_postgres.unlogged.unlogged_changes import UnloggedChanges


class SchemaTracker:
    """The captured tables at the position that is being read; used by the reader's thread.

    Args:
        catalogue: Over the reader's own connection.
        unlogged: Detects rewritten tables.
        database: The database's name in table identifiers.
        tables: The schemas as of the offset reading starts from.
        out_of_range: What happens to values the standard types cannot hold.
        relation_ids: Captured tables by object identifier; a renamed or replaced table is recognised by it.
            Changed in place.
        narrowed: Tables of which only columns selected by name are captured.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        unlogged: UnloggedChanges,
        database: str,
        tables: Iterable[TableSchema],
        out_of_range: OutOfRange,
        relation_ids: RelationIds,
        narrowed: Iterable[TableId] = (),
    ) -> None:
        self._catalogue = catalogue
        self._unlogged = unlogged
        self._database = database
        self.relation_ids = relation_ids
        self._narrowed = set(narrowed)
        self._out_of_range = out_of_range
        self.schemas: dict[TableId, TableSchema] = {}
        for schema in tables:
            self.schemas[schema.table] = self._with_identities(schema)
        self.replaced: dict[TableId, Counter[str]] = {table: Counter() for table in self.schemas}

    def _with_identities(self, schema: TableSchema) -> TableSchema:
        """The schema with column identities from the catalogue; records the table's identifier, too."""
        facts = self._catalogue.find(schema.table)
        if facts is None:
            return schema
        if schema.table not in self.relation_ids.values():
            # Otherwise another table has taken the name, which is reported when the log or the catalogue shows it.
            self.relation_ids.setdefault(facts.oid, schema.table)
        numbers = {c.name: str(c.attnum) for c in facts.columns}
        return replace_columns(
            schema, (replace(c, source_id=c.source_id or numbers.get(c.name, "")) for c in schema.columns)
        )

    def table_of(self, relation: Relation) -> TableId | None:
        """The captured table a relation is, by name or, when it was renamed, by identifier.

        Of two that exchanged their names each is known by its identifier while the log has a name that is not its last one.
        """
        table, known = self._names(relation)
        if table in self.schemas and known in {None, table}:
            return table
        if table in self.schemas and self._is_named(self._catalogue.by_oid(relation.oid), table):
            return table
        return known

    def _names(self, relation: Relation) -> tuple[TableId, TableId | None]:
        """The name that the log has, and the captured table that the identifier belongs to."""
        named = TableId(self._database, relation.table, relation.schema)
        return named, self.relation_ids.name_in(relation.oid, self.schemas)

    @staticmethod
    def _is_named(facts: TableFacts | None, table: TableId) -> bool:
        return facts is not None and (facts.schema, facts.name) == (table.schema, table.table)

    def captured(self) -> dict[int, TableId]:
        """The captured tables by identifier."""
        names = {oid: self.relation_ids.name_in(oid, self.schemas) for oid in self.relation_ids}
        return {oid: name for oid, name in names.items() if name is not None}

    def remove(self, table: TableId) -> None:
        """Remove a dropped table: a later table of its name is another one."""
        del self.schemas[table]
        for oid in [oid for oid, name in self.relation_ids.items() if name == table]:
            del self.relation_ids[oid]

    def on_relation(self, relation: Relation, report: Callable[[StructureChange], None]) -> RelationPlan | None:
        """Plan how to decode `relation`; every schema change it shows is reported first.

        Returns:
            None when the table is not captured.

        Raises:
            SnapshotNeededError: When the table has the name of another one, whose rows the copy under that name has.
        """
        table = self.table_of(relation)
        if table is None:
            return None
        facts = self._catalogue.by_oid(relation.oid)
        named, known = self._names(relation)
        if named != table and (named in self.schemas or self._is_past_name(relation.oid, named, facts)):
            named = table
        elif named != table:
            self._rename(table, named, report)
        elif self._is_named(facts, named):
            self._check_exchange(relation.oid, named, known)
        self._record_identifier(relation.oid, named, report)
        now, certain = self._observe(relation, facts, self.schemas[named])
        self._apply(now, facts, report, certain=certain)
        return self._plan(relation, self.schemas[named])

    def _check_exchange(self, oid: int, named: TableId, known: TableId | None) -> None:
        self._unlogged.check_copied_as(oid, named, self.schemas, is_exchange=known not in {None, named})

    def _is_past_name(self, oid: int, name: TableId, facts: TableFacts | None) -> bool:
        """Whether the log, in a replay, has the table's name from before a rename that is already known."""
        return self.relation_ids.former.get(name) == oid and not self._is_named(facts, name)

    def refresh(self, oid: int, report: Callable[[StructureChange], None]) -> None:
        """Report what the catalogue shows; called once everything written before it has been read.

        The log announces a schema change with the next row only, which may never be written.

        Raises:
            SnapshotNeededError: As `on_relation`.
        """
        facts, table = self._catalogue.by_oid(oid), self.relation_ids.name_in(oid, self.schemas)
        if facts is None or table is None:
            return
        named = TableId(self._database, facts.name, facts.schema)
        if named in self.schemas:
            self._check_exchange(oid, named, table)
            if named != table:
                self._record_identifier(oid, named, report)
        elif named != table:
            self._rename(table, named, report)
            self.relation_ids.rename(oid, named)
        self._apply(self._narrow(self._catalogue.schema(facts, named)), facts, report, certain=True)

    def is_pending(self, oid: int) -> bool:
        """Whether the catalogue shows other columns than the log has shown so far."""
        facts, table = self._catalogue.by_oid(oid), self.relation_ids.name_in(oid, self.schemas)
        if facts is None or table is None:
            return True
        known = self.schemas[table]
        now = self._catalogue.schema(facts, table)
        return bool(compare(known, narrow(now, known) if table in self._narrowed else now))

    def replay(self, change: EmittedChange, report: Callable[[StructureChange], None]) -> None:
        """Report what an earlier run emitted from the catalogue, whatever the catalogue shows now."""
        now = change.schema.table
        if now not in self.schemas and change.before in self.schemas:
            self._rename(change.before, now, report)
        if now in self.schemas:
            facts = self._catalogue.by_oid(change.oid)
            self._apply(change.schema, facts, report, certain=not change.needs_snapshot)

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

    def _rename(self, before: TableId, now: TableId, report: Callable[[StructureChange], None]) -> None:
        schema = rename_table(self.schemas.pop(before), now)
        self.schemas[now] = schema
        self.replaced[now] = self.replaced.pop(before)
        if before in self._narrowed:
            self._narrowed = self._narrowed - {before} | {now}
        report(StructureChange(DDLOperation.RENAME_TABLE, now, schema, previous=before))

    def _record_identifier(self, oid: int, table: TableId, report: Callable[[StructureChange], None]) -> None:
        """Record the table's identifier; another table under a known name is a replaced table."""
        same_name = [other for other, name in self.relation_ids.items() if name == table and other != oid]
        if same_name and oid not in self.relation_ids:
            report(StructureChange(DDLOperation.TRUNCATE_TABLE, table, self.schemas[table], needs_snapshot=True))
        for other in same_name:
            facts = self._catalogue.by_oid(other)
            if facts is None or oid not in self.relation_ids:
                del self.relation_ids[other]
            else:  # the two exchanged their names
                self.relation_ids.rename(other, TableId(self._database, facts.name, facts.schema))
        self.relation_ids.rename(oid, table)

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
        return self._narrow(TableSchema(known.table, observed.columns, key)), observed.is_certain

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
            tuple(Converter(schema.table, column, self._out_of_range, replaced) for column in schema.columns),
        )


def _catalogue_column(facts: TableFacts | None, column: Column) -> ColumnFacts | None:
    if facts is None:
        return None
    return next((c for c in facts.columns if str(c.attnum) == column.source_id), None)


def narrow(now: TableSchema, known: TableSchema) -> TableSchema:
    """`now` with the columns `known` has, whatever their names, and its key."""
    wanted = {column.source_id for column in known.columns} | {now[name].source_id for name in now.primary_key}
    return replace_columns(now, (column for column in now.columns if column.source_id in wanted))
