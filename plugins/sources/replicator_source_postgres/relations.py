"""Relation messages against the schemas we know: how to decode, and what changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import pyarrow as pa

from replicator_sdk.config import OutOfRange
from replicator_sdk.errors import SchemaDriftError
from replicator_sdk.event import Alter, AlterKind, DDLOperation
from replicator_sdk.schema import Column, TableId, TableSchema, rename_table, replace_columns
from replicator_source_postgres.catalogue import Catalogue, ColumnFacts, TableFacts
from replicator_source_postgres.pgoutput.images import RelationPlan
from replicator_source_postgres.pgoutput.message import Relation
from replicator_source_postgres.schema_change import Observed, compare, identify, keeps_values
from replicator_source_postgres.seen import SeenTables
from replicator_source_postgres.told import ToldChange
from replicator_source_postgres.types.array import split_arrays
from replicator_source_postgres.types.convert import Converter
from replicator_source_postgres.types.mapping import standard_type
from replicator_source_postgres.types.range import Policy
from replicator_source_postgres.unlogged import UnloggedChanges


@dataclass(frozen=True, slots=True)
class StructureChange:
    """A change of structure the log shows, still without place and time."""

    operation: DDLOperation
    table: TableId
    schema: TableSchema
    previous: TableId | None = None
    alters: tuple[Alter, ...] = ()
    needs_snapshot: bool = False


class Relations:
    """The captured tables as the log goes on; used by the reader's thread.

    Args:
        catalogue: Over a connection of the reader's own.
        unlogged: Knows which tables were rewritten.
        database: The database's name in table identifiers.
        tables: The schemas as of the offset reading starts from.
        out_of_range: What becomes of values the standard types cannot hold.
        seen: Captured tables by object identifier; a renamed or replaced table is recognised by it. Changed in place.
        narrowed: Tables of which columns were selected by name.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        unlogged: UnloggedChanges,
        database: str,
        tables: Iterable[TableSchema],
        out_of_range: OutOfRange,
        seen: SeenTables,
        narrowed: Iterable[TableId] = (),
    ) -> None:
        self._catalogue = catalogue
        self._unlogged = unlogged
        self._database = database
        self.seen = seen
        self._narrowed = set(narrowed)
        self._out_of_range = out_of_range
        self.schemas: dict[TableId, TableSchema] = {}
        for schema in tables:
            self.schemas[schema.table] = self._remember(schema)
        self.replaced: dict[TableId, Counter[str]] = {table: Counter() for table in self.schemas}

    def _remember(self, schema: TableSchema) -> TableSchema:
        """Look at a table once at the start for its identifier; columns without identity get theirs."""
        facts = self._catalogue.find(schema.table)
        if facts is None:
            return schema
        if schema.table not in self.seen.values():
            # Otherwise another table has taken the name, which is reported when the log or the catalogue shows it.
            self.seen.setdefault(facts.oid, schema.table)
        numbers = {c.name: str(c.attnum) for c in facts.columns}
        return replace_columns(
            schema, (replace(c, source_id=c.source_id or numbers.get(c.name, "")) for c in schema.columns)
        )

    def of(self, relation: Relation) -> TableId | None:
        """The captured table a relation is, by name or, when it was renamed, by identifier."""
        table = TableId(self._database, relation.table, relation.schema)
        if table in self.schemas:
            return table
        return self.seen.name_in(relation.oid, self.schemas)

    def captured(self) -> dict[int, TableId]:
        """The captured tables by identifier."""
        names = {oid: self.seen.name_in(oid, self.schemas) for oid in self.seen}
        return {oid: name for oid, name in names.items() if name is not None}

    def forget(self, table: TableId) -> None:
        """A table was dropped: one of its name that comes later is another table."""
        del self.schemas[table]
        for oid in [oid for oid, name in self.seen.items() if name == table]:
            del self.seen[oid]

    def learn(self, relation: Relation, report: Callable[[StructureChange], None]) -> RelationPlan | None:
        """How to decode `relation`; every change of structure it shows is reported first.

        Returns:
            None when nobody asked for the table.
        """
        table = self.of(relation)
        if table is None:
            return None
        facts = self._catalogue.by_oid(relation.oid)
        named = TableId(self._database, relation.table, relation.schema)
        if named != table and self._is_past_name(relation.oid, named, facts):
            named = table
        elif named != table:
            self._rename(table, named, report)
        self._recognise(relation.oid, named, report)
        now, certain = self._observe(relation, facts, self.schemas[named])
        self._follow(now, facts, report, certain=certain)
        return self._plan(relation, self.schemas[named])

    def _is_past_name(self, oid: int, name: TableId, facts: TableFacts | None) -> bool:
        """Whether the log, read again, calls the table as it was called before a rename that is already known."""
        now = facts and (facts.schema, facts.name)
        return self.seen.former.get(name) == oid and now != (name.schema, name.table)

    def settle(self, oid: int, report: Callable[[StructureChange], None]) -> None:
        """Report what the catalogue shows, once the log holds nothing of the table that was written before it.

        A change of structure is announced in the log with the next row only, which may never come.
        """
        facts, table = self._catalogue.by_oid(oid), self.seen.name_in(oid, self.schemas)
        if facts is None or table is None:
            return
        named = TableId(self._database, facts.name, facts.schema)
        if named != table:
            self._rename(table, named, report)
            self.seen.rename(oid, named)
        self._follow(self._narrow(self._catalogue.schema(facts, named)), facts, report, certain=True)

    def is_behind(self, oid: int) -> bool:
        """Whether the catalogue shows other columns than the log has shown so far."""
        facts, table = self._catalogue.by_oid(oid), self.seen.name_in(oid, self.schemas)
        if facts is None or table is None:
            return True
        known = self.schemas[table]
        now = self._catalogue.schema(facts, table)
        return bool(compare(known, narrow(now, known) if table in self._narrowed else now))

    def retell(self, told: ToldChange, report: Callable[[StructureChange], None]) -> None:
        """Report what was told from the catalogue in an earlier run, whatever the catalogue shows by now."""
        now = told.schema.table
        if now not in self.schemas and told.before in self.schemas:
            self._rename(told.before, now, report)
        if now in self.schemas:
            facts = self._catalogue.by_oid(told.oid)
            self._follow(told.schema, facts, report, certain=not told.needs_snapshot)

    def _follow(
        self,
        now: TableSchema,
        facts: TableFacts | None,
        report: Callable[[StructureChange], None],
        *,
        certain: bool,
    ) -> None:
        """Report the steps from the known schema to `now`, which is known from then on."""
        if alters := compare(self.schemas[now.table], now):
            alters = tuple(self._with_default(alter, facts) for alter in alters)
            change = StructureChange(DDLOperation.ALTER_TABLE, now.table, now, alters=alters)
            change = replace(change, needs_snapshot=not certain or self._rewrote(change, facts))
            self.schemas[now.table] = now
            if facts is not None and change.needs_snapshot:
                self._unlogged.report(facts.oid)
            report(change)

    def _rename(self, before: TableId, now: TableId, report: Callable[[StructureChange], None]) -> None:
        schema = rename_table(self.schemas.pop(before), now)
        self.schemas[now] = schema
        self.replaced[now] = self.replaced.pop(before)
        if before in self._narrowed:
            self._narrowed = self._narrowed - {before} | {now}
        report(StructureChange(DDLOperation.RENAME_TABLE, now, schema, previous=before))

    def _recognise(self, oid: int, table: TableId, report: Callable[[StructureChange], None]) -> None:
        """Keep the identifier by the name; another table under a known name is a replaced table."""
        same_name = [other for other, name in self.seen.items() if name == table and other != oid]
        if same_name and oid not in self.seen:
            report(StructureChange(DDLOperation.TRUNCATE_TABLE, table, self.schemas[table], needs_snapshot=True))
        for other in same_name:
            del self.seen[other]
        self.seen.rename(oid, table)

    def _observe(self, relation: Relation, facts: TableFacts | None, known: TableSchema) -> tuple[TableSchema, bool]:
        """The table's schema as the log shows it, narrowed to the columns asked for."""
        catalogue = tuple(map(self._catalogue.column, facts.columns)) if facts else ()
        generated = facts.generated if facts else ()
        announced = [
            Column(
                c.name,
                standard_type(c.type_oid, c.typmod, self._catalogue.type_of),
                source_type=self._catalogue.written(c.type_oid, c.typmod),
            )
            for c in relation.columns
            if c.name not in generated
        ]
        observed = identify(announced, catalogue, known)
        key = self._key(relation, facts, known, observed)
        return self._narrow(TableSchema(known.table, observed.columns, key)), observed.is_certain

    def _narrow(self, now: TableSchema) -> TableSchema:
        """Only the columns asked for, where the pipeline selects them; the key always."""
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
        live = _live(facts, column)
        if live is None or live.missing is None:
            return alter
        policy = Policy(self._out_of_range, str(facts), column.name, Counter())
        _, _, elements = split_arrays(pa.array([live.missing]), policy)
        converter = Converter(TableId(self._database, facts.name if facts else ""), column, self._out_of_range)
        return replace(alter, default=converter.convert(elements.cast(pa.binary()))[0].as_py())

    def _rewrote(self, change: StructureChange, facts: TableFacts | None) -> bool:
        """Whether rows may hold values now that the log did not carry."""
        if facts is None:
            return False
        if self._unlogged.reason(facts.oid) is not None:
            return True
        for alter in change.alters:
            if alter.kind is AlterKind.ADD_COLUMN and alter.column is not None:
                live = _live(facts, alter.column)
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
                hint="take the column list off the publication, or leave these columns out of the pipeline",
            )
        replaced = self.replaced.setdefault(schema.table, Counter())
        return RelationPlan(
            schema,
            tuple(places[name] for name in schema.names),
            tuple(Converter(schema.table, column, self._out_of_range, replaced) for column in schema.columns),
        )


def _live(facts: TableFacts | None, column: Column) -> ColumnFacts | None:
    if facts is None:
        return None
    return next((c for c in facts.columns if str(c.attnum) == column.source_id), None)


def narrow(now: TableSchema, known: TableSchema) -> TableSchema:
    """`now` with the columns `known` has, whatever their names, and its key."""
    wanted = {column.source_id for column in known.columns} | {now[name].source_id for name in now.primary_key}
    return replace_columns(now, (column for column in now.columns if column.source_id in wanted))
