"""The publication, which selects the tables that the log delivers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import structlog

from replicator_sdk.errors import HistoryLostError, NeedsUserError, TableHistoryLostError
from replicator_sdk.schema import TableId, TableSchema
from replicator_source_postgres.catalogue import Catalogue, TableFacts
from replicator_source_postgres.connection import driver, quote_identifier, statement
from replicator_source_postgres.relation_ids import RelationIds
from replicator_source_postgres.table_registry import find_readable

if TYPE_CHECKING:
    import psycopg

log = structlog.get_logger(__name__)


def qualified(facts: TableFacts) -> str:
    """The table's quoted full name."""
    return f"{quote_identifier(facts.schema)}.{quote_identifier(facts.name)}"


def published_as(facts: TableFacts) -> str:
    """The table in a statement on publications, without the children of plain inheritance."""
    return ("ONLY " if facts.kind == "r" else "") + qualified(facts)  # a partitioned table includes its partitions


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table in a publication.

    Attributes:
        oid: The table (of a partitioned one the root, when changes are published through it).
        columns: The published columns; None for all.
        has_row_filter: Whether a WHERE leaves rows out.
    """

    oid: int
    columns: frozenset[str] | None
    has_row_filter: bool


class Publication:
    """One publication, read and changed over one connection."""

    def __init__(self, catalogue: Catalogue, name: str) -> None:
        self.name = name
        self._catalogue = catalogue

    @property
    def _connection(self) -> psycopg.Connection[tuple[Any, ...]]:
        return self._catalogue.connection

    def ensure(self, *, is_first_start: bool) -> None:
        """Create it at the first start, without tables, unless it exists; refuse one without some kind of change.

        It must exist before the slot: the server looks it up as of the log position it decodes.

        Raises:
            NeedsUserError: When it may not be created, or leaves out kinds of changes.
            HistoryLostError: When it does not exist any more after the first start.
        """
        quoted = quote_identifier(self.name)
        if (flags := self._flags()) is None:
            if not is_first_start:
                raise HistoryLostError(
                    f"the publication {self.name!r} does not exist any more; what changed since it was dropped is not in the log",
                    code="RPL-3208",
                    hint="have every table copied again: `replicator reset PIPELINE`",
                )
            sql = f"CREATE PUBLICATION {quoted} WITH (publish_via_partition_root = true)"
            self._change(sql, "creating the publication")
            log.info("publication.created", publication=self.name)
            return
        if not flags[0]:
            self._refuse(
                "does not publish every kind of change",
                f"ALTER PUBLICATION {quoted} SET (publish = 'insert, update, delete, truncate');",
            )

    def identity(self) -> str:
        """Differs for a publication of another name, and for one that was dropped and created again."""
        row = self._connection.execute(
            "SELECT oid::int8 FROM pg_catalog.pg_publication WHERE pubname = %s", [self.name]
        )
        return f"{(row.fetchone() or ('',))[0]}"

    def _flags(self) -> tuple[bool, bool] | None:
        query = """SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate, pubviaroot
                   FROM pg_catalog.pg_publication WHERE pubname = %s"""
        row = self._connection.execute(query, [self.name]).fetchone()
        return None if row is None else (row[0], row[1])

    def tables(self) -> dict[int, PublishedTable]:
        """The tables it publishes now, by object identifier."""
        has_lists = self._connection.info.server_version >= 150000
        extra = "p.attnames::text[], p.rowfilter IS NOT NULL" if has_lists else "NULL::text[], false"
        query = f"""SELECT c.oid::int8, {extra} FROM pg_catalog.pg_publication_tables p
                    JOIN pg_catalog.pg_namespace n ON n.nspname = p.schemaname
                    JOIN pg_catalog.pg_class c ON c.relname = p.tablename AND c.relnamespace = n.oid
                    WHERE p.pubname = %s"""  # noqa: S608 - constants only
        rows = self._connection.execute(statement(query), [self.name])
        return {oid: PublishedTable(oid, None if c is None else frozenset(c), f) for oid, c, f in rows}

    def add(self, schemas: Sequence[TableSchema], relation_ids: RelationIds) -> dict[int, TableSchema]:
        """Make sure that it publishes these tables whole; checks all of them before it changes anything.

        Args:
            schemas: The tables as the pipeline knows them; the catalogue may show later changes.
            relation_ids: Tables captured before, by identifier. A renamed one is found by it; a dropped one needs no
                publication, since what is left to read is in the log.

        Returns:
            The tables by identifier, without those that were dropped, or renamed just while they were added.

        Raises:
            NeedsUserError: For the first table that is filtered, or whose publication would make the application's UPDATE
                and DELETE fail; nothing is changed then. Or for the first that may not be added; the others are added
                before it is raised.
            TableHistoryLostError: When a table captured before was removed from it since.
        """
        published, flags = self.tables(), self._flags()
        wanted = {}
        missing = []
        for schema in schemas:
            facts = self._find(schema, relation_ids)
            if facts is None:
                log.warning("table.dropped_at_source", table=str(schema.table))
                continue
            check_publishable(self._catalogue, schema.table, facts)
            if facts.kind == "p" and flags is not None and not flags[1]:
                fix = f"ALTER PUBLICATION {quote_identifier(self.name)} SET (publish_via_partition_root = true);"
                self._refuse("publishes partitions under their own names", fix, table=str(schema.table))
            wanted[facts.oid] = schema
            if facts.oid in published:
                self._check_whole(schema, facts, published[facts.oid])
            elif facts.oid in relation_ids:
                raise removed_from_publication(self.name, schema.table)
            else:
                missing.append((schema.table, facts))
        if missing:
            self._add(missing)
            # They are added by name, which another table may have taken just before: then it was published in its place.
            published = self.tables()
            for _, facts in missing:
                if facts.oid not in published:
                    del wanted[facts.oid]
        return wanted

    def _find(self, schema: TableSchema, relation_ids: RelationIds) -> TableFacts | None:
        """The table by identifier when it was captured before, else by name; None when it was dropped since."""
        table, copied = schema.table, int(schema.source_id or 0)
        if copied in relation_ids and (facts := self._catalogue.by_oid(copied)) is not None:
            return facts
        oid = relation_ids.oid_of(table)
        if oid is not None and self._catalogue.find(table) is None:
            return self._catalogue.by_oid(oid)
        return find_readable(self._catalogue, table)

    def _add(self, missing: Sequence[tuple[TableId, TableFacts]]) -> None:
        """Add all tables in one statement, or one by one where the server refuses that.

        Raises:
            NeedsUserError: For the first table that may not be added, after all others were.
        """
        names = [published_as(facts) for _, facts in missing]
        errors = driver().errors
        try:
            self._connection.execute(statement(self._adding(*names)))
        except (errors.DuplicateObject, errors.InsufficientPrivilege):
            refused = [
                err for (table, _), name in zip(missing, names, strict=True) if (err := self._add_one(table, name))
            ]
            if refused:
                raise refused[0] from None
        log.info("publication.tables_added", publication=self.name, tables=", ".join(names))

    def _adding(self, *names: str) -> str:
        return f"ALTER PUBLICATION {quote_identifier(self.name)} ADD TABLE {', '.join(names)}"

    def _add_one(self, table: TableId, name: str) -> NeedsUserError | None:
        """Add one table; returns the error when it may not be added."""
        try:
            self._change(self._adding(name), f"adding {table} to the publication", table=str(table))
        except NeedsUserError as err:
            return err
        return None

    def _check_whole(self, schema: TableSchema, facts: TableFacts, published: PublishedTable) -> None:
        name = str(schema.table)
        if published.has_row_filter:
            self._refuse(f"filters the rows of {name}", self._whole(facts), table=name)
        left_out = _left_out(schema, facts, published)
        while left_out:
            # Publication and table are read one after the other, and a column may be renamed or added in between.
            before, again, listed = left_out, self._catalogue.by_oid(facts.oid), self.tables().get(facts.oid)
            if again is None or listed is None:
                return
            left_out = _left_out(schema, again, listed)
            if left_out == before:
                self._refuse(f"leaves out the columns {left_out} of {name}", self._whole(facts), table=name)

    def _whole(self, facts: TableFacts) -> str:
        """The statements that publish all rows and columns of a table."""
        name = published_as(facts)
        publication = f"ALTER PUBLICATION {quote_identifier(self.name)}"
        return f"{publication} DROP TABLE {name}; {publication} ADD TABLE {name};"

    def _change(self, sql: str, doing: str, *, table: str | None = None) -> None:
        errors = driver().errors
        try:
            self._connection.execute(statement(sql))
        except errors.DuplicateObject:
            # Another session was faster; the next query of the catalogue shows what it did.
            log.info("publication.changed_by_another_session", sql=sql)
        except errors.InsufficientPrivilege as err:
            raise NeedsUserError(
                f"{doing} {self.name!r}: {err.diag.message_primary}",
                code="RPL-3303",
                table=table,
                hint=f"let {'a role that owns the publication and the table' if table else 'the owner of the database'} run:"
                f" {sql}; then " + ("`replicator table retry NAME TABLE`" if table else "start the pipeline again"),
            ) from None

    def _refuse(self, why: str, fix: str, *, table: str | None = None) -> NoReturn:
        raise NeedsUserError(f"the publication {self.name!r} {why}", code="RPL-3304", hint=fix, table=table)


def _left_out(schema: TableSchema, facts: TableFacts, published: PublishedTable) -> list[str]:
    """The columns of `schema`, under their names of now, that are not published."""
    if published.columns is None:
        return []
    asked = {column.source_id for column in schema.columns}
    return [c.name for c in facts.columns if str(c.attnum) in asked and c.name not in published.columns]


def check_publishable(catalogue: Catalogue, table: TableId, facts: TableFacts) -> None:
    """Refuse a table whose publication would make the application's statements fail, or whose changes the log does not hold.

    Raises:
        NeedsUserError: With the statement that fixes it.
    """
    parts = [facts]
    if facts.kind == "p":
        parts = [leaf for oid in catalogue.leaves(facts.oid) if (leaf := catalogue.by_oid(oid)) is not None]
    for part in (facts, *parts):
        if part.persistence != "p":
            raise NeedsUserError(
                f"{_part_of(table, facts, part)} is not a permanent table; the log does not hold its changes",
                code="RPL-3305",
                table=str(table),
                hint=f"ALTER TABLE {qualified(part)} SET LOGGED;",
            )
    for part in parts:
        if part.kind == "f":
            raise NeedsUserError(
                f"{table} has the foreign table {part.name!r} as a partition; the log does not hold its changes",
                code="RPL-3307",
                table=str(table),
                hint=f"ALTER TABLE {qualified(facts)} DETACH PARTITION {qualified(part)};",
            )
        if part.is_blocking:
            raise NeedsUserError(
                f"{table} has no replica identity: the application's UPDATE and DELETE on it fail for as long as it is published",
                code="RPL-3306",
                table=str(table),
                hint=f"give it a primary key, or: ALTER TABLE {qualified(part)} REPLICA IDENTITY FULL; then, where it has stopped, `replicator table retry NAME TABLE`",
            )
    if not facts.key and any(part.identity != "f" for part in parts):
        keyed = next(part for part in parts if part.identity != "f")
        raise NeedsUserError(
            f"{table} has no key, but its partition {keyed.name!r} does not log whole rows",
            code="RPL-3306",
            table=str(table),
            hint=f"ALTER TABLE {qualified(keyed)} REPLICA IDENTITY FULL; then, where it has stopped, `replicator table retry NAME TABLE`",
        )


def _part_of(table: TableId, facts: TableFacts, part: TableFacts) -> str:
    return str(table) if part is facts else f"the partition {part.name!r} of {table}"


def removed_from_publication(publication: str, table: TableId) -> TableHistoryLostError:
    """The error for a captured table that is no longer published: its changes are missing from the log."""
    name = f"{quote_identifier(table.schema)}.{quote_identifier(table.table)}"
    return TableHistoryLostError(
        f"{table} was removed from the publication {publication!r}; what changed in it since is not in the log",
        code="RPL-3209",
        table=str(table),
        hint=f"ALTER PUBLICATION {quote_identifier(publication)} ADD TABLE {name}; (of an unlogged table ALTER TABLE {name} SET LOGGED; before it)"
        " then `replicator table retry NAME TABLE`: a run copies the table again",
    )
