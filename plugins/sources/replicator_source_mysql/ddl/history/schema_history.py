"""The schema history: definitions of all tables of the followed databases, by log position.

The log may be read again from an older position, after a crash or on request. Then the definitions of that time are needed,
not those in the catalogue now. So a definition is kept as long as reading may go back to where it was valid.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, Self

from replicator_sdk.authoring.stored_form import check_form, release
from replicator_sdk.errors import HistoryLostError, SchemaDriftError
from replicator_sdk.schema import TableId
from replicator_source_mysql.ddl.apply.apply_effects import apply_effects
from replicator_source_mysql.ddl.apply.known_tables import Entry, KnownTable, KnownTables, UnknownTable
from replicator_source_mysql.ddl.apply.table_change import TableChange
from replicator_source_mysql.ddl.history.table_version import TableVersion
from replicator_source_mysql.ddl.history.timeline import Place, Timeline
from replicator_source_mysql.ddl.parse.effect import Effect
from replicator_source_mysql.definition import TableDefinition, UniqueKey
from replicator_source_mysql.hints import COPY_AGAIN, COPY_TABLE_AGAIN
from replicator_source_mysql.offset import MySqlOffset

_FORMAT = 2
_LEVEL = 3


class CatalogueTables(Protocol):
    """Tables as the catalogue has them at one log position."""

    @property
    def databases(self) -> Mapping[str, str]:
        """The databases that are complete, with their default character sets."""

    @property
    def definitions(self) -> Mapping[TableId, TableDefinition]:
        """Their tables."""


class SchemaHistory:
    """Definitions by position. Used by one thread; created by `begin` or `load`.

    Attributes:
        revision: Grows with every change of what `dump` gives.
    """

    def __init__(self, lower_case_table_names: int = 0) -> None:
        self.revision = 0
        self._mode = lower_case_table_names
        self._followed: dict[str, Place] = {}  # from which position on
        self._tables: dict[TableId, Timeline[Any, TableVersion]] = {}
        self._databases: dict[str, Timeline[Any, str]] = {}
        self._now = self._empty()
        self._from: Place | None = None  # before it definitions are forgotten

    def _empty(self) -> KnownTables:
        return KnownTables(self._mode, lambda database: self._folded(database) in self._followed)

    def spelled(self, database: str) -> str:
        """The name of a database as the server stores it."""
        return database.lower() if self._mode == 1 else database

    def _folded(self, database: str) -> str:
        return database.lower() if self._mode else database

    @classmethod
    def begin(
        cls,
        position: Place,
        known: CatalogueTables,
        *,
        lower_case_table_names: int = 0,
        indexes: Mapping[TableId, tuple[UniqueKey, ...]] | None = None,
    ) -> Self:
        """A history that begins at `position`.

        Args:
            position: A log position at which `known` is valid.
            known: The tables. Their databases are the ones that are followed, also when they are dropped and made again.
            lower_case_table_names: The server's setting, see `KnownTables`.
            indexes: The indexes that are not unique, where they are known. Without them the name that the server makes up
                for a later unnamed UNIQUE may come out wrong where an index has the same name.
        """
        history = cls(lower_case_table_names)
        history._from = position
        history.extend(position, known, indexes=indexes)
        return history

    def extend(
        self, position: Place, known: CatalogueTables, *, indexes: Mapping[TableId, tuple[UniqueKey, ...]] | None = None
    ) -> None:
        """Learn tables and databases that the history does not know, or no longer knows, as of `position`.

        What it knows stays. The position is not before any of the statements applied so far.
        """
        for database, charset in known.databases.items():
            self._followed.setdefault(self._folded(database), position)
            if not self._now.has_database(database):
                self._now.put_database(database, charset)
                self._databases.setdefault(self._folded(database), Timeline()).put(position, charset)
        for table, definition in known.definitions.items():
            if not isinstance(self._now.get(table), KnownTable):
                structure = KnownTable(definition, (indexes or {}).get(table, ()))
                self._now.put(table, structure)
                self._record(position, table, structure)
        self.revision += 1

    def apply(self, effects: Iterable[Effect], position: Place) -> list[TableChange]:
        """Apply one statement, which ends at `position`; returns what happened to each table, in order.

        Rows changed by the statement's own text (`StatementDml`) are not its business. A statement that is not understood
        leaves the tables it touches unknown; asking for their definition is an error from there on.
        """
        databases = self._now.databases()
        changes = apply_effects(effects, self._now)
        for table in dict.fromkeys(
            name for change in changes for name in (change.previous_table, change.table) if name
        ):
            self._record(position, table, self._now.get(table))
        now = self._now.databases()
        for database in databases.keys() | now.keys():
            if databases.get(database) != now.get(database):
                self._databases.setdefault(database, Timeline()).put(position, now.get(database))
                self.revision += 1
        return changes

    def _record(self, position: Place, table: TableId, entry: Entry | None) -> None:
        timeline = self._tables.setdefault(self._now.key(table), Timeline())
        if entry is not None or timeline:
            timeline.put(position, None if entry is None else TableVersion(table, entry))
            self.revision += 1
        else:
            del self._tables[self._now.key(table)]

    # ------------------------------------------------------------ asking

    def knows(self, table: TableId) -> bool:
        """Whether the table exists now, also when its definition is not known."""
        return self._now.get(table) is not None

    def unknown(self, table: TableId) -> bool:
        """Whether the table exists and its definition is not known."""
        return isinstance(self._now.get(table), UnknownTable)

    def definition(self, table: TableId) -> TableDefinition:
        """The table's definition now.

        Raises:
            KeyError: When there is no such table, see `knows`.
            SchemaDriftError: RPL-3750 when a statement that is not understood has touched it.
        """
        entry = self._now.get(table)
        if entry is None:
            raise KeyError(str(table))
        if isinstance(entry, KnownTable):
            return entry.definition
        since = self._tables[self._now.key(table)].since
        raise SchemaDriftError(
            f"the table's definition is not known after the statement {entry.head!r}: {entry.reason}",
            code="RPL-3750",
            table=str(table),
            position=str(since),
            hint=f"report the statement; {COPY_TABLE_AGAIN}",
        )

    def tables(self) -> list[TableId]:
        """All tables that exist now, in order of their names."""
        return self._now.tables()

    # ------------------------------------------------------------ going back, forgetting

    def rewind(self, position: Place) -> None:
        """Go back to what was valid at `position`; statements after it are expected again.

        A database that was learned of after it is not followed until it is learned of again.

        Raises:
            HistoryLostError: RPL-3753 when what was valid there is forgotten.
        """
        self.check_reaches(position)
        self._followed = {name: since for name, since in self._followed.items() if not position < since}
        tables = [timeline.rewind(position) for timeline in self._tables.values()]
        databases = [timeline.rewind(position) for timeline in self._databases.values()]
        if any(tables) or any(databases):
            self.revision += 1
        self._restore()

    def check_reaches(self, position: Place) -> None:
        """Check that it knows what was valid at `position`.

        Raises:
            HistoryLostError: RPL-3753 when that is forgotten, or from before it began.
        """
        if self._from is not None and position < self._from:
            raise HistoryLostError(
                "the schema history no longer knows what tables were at the saved offset: files of several backups were put together",
                code="RPL-3753",
                position=str(position),
                hint=f"put back all files of the state folder as they were at one moment, or {COPY_AGAIN}",
            )

    @property
    def steps(self) -> int:
        """How many definitions it holds, those of dropped tables included: what `dump` costs."""
        return sum(map(len, self._tables.values())) + sum(map(len, self._databases.values()))

    def prune(self, position: Place) -> None:
        """Forget what is not needed to read on from `position` or any later one. What it does not know from before stays unknown."""
        if self._from is None or self._from < position:  # an offset from before a heal may be kept
            self._from = position
        for timeline in self._tables.values():
            timeline.prune(position)
        for charsets in self._databases.values():
            charsets.prune(position)
        self._drop_empty()
        self.revision += 1

    def _drop_empty(self) -> None:
        self._tables = {key: timeline for key, timeline in self._tables.items() if timeline}
        self._databases = {key: timeline for key, timeline in self._databases.items() if timeline}

    def _restore(self) -> None:
        self._drop_empty()
        self._now = self._empty()
        for timeline in self._tables.values():
            version = timeline.last
            if version is not None:
                self._now.put_lazily(version.table, _loader(version))
        for database, charsets in self._databases.items():
            if charsets.last is not None:
                self._now.put_database(database, charsets.last)

    # ------------------------------------------------------------ state

    def dump(self) -> bytes:
        """The form kept in state: a line that says what is valid from where, and a line for every different structure."""
        places: dict[str, int] = {}
        lines: dict[str, int] = {}

        def numbered(known: dict[str, int], text: str) -> int:
            return known.setdefault(text, len(known))

        def place(at: Place) -> int:
            return numbered(places, json.dumps(at.to_json()))

        tables = [
            [
                *_name(table, timeline),
                [[place(at), None if version is None else numbered(lines, version.text)] for at, version in timeline],
            ]
            for table, timeline in self._tables.items()
        ]
        databases = {name: [[place(at), charset] for at, charset in line] for name, line in self._databases.items()}
        head = {
            "format": _FORMAT,
            "release": release(),
            "case": self._mode,
            "followed": {name: place(since) for name, since in sorted(self._followed.items())},
            "databases": databases,
            "tables": tables,
            "places": [json.loads(text) for text in places],
        }
        if self._from is not None:
            head["from"] = self._from.to_json()
        return zlib.compress("\n".join([json.dumps(head), *lines]).encode(), _LEVEL)

    @classmethod
    def load(cls, stored: bytes, read_place: Callable[[Any], Place] = MySqlOffset.from_json) -> Self:
        """The inverse of `dump`; structures are decoded when they are first used.

        Raises:
            HistoryLostError: When the bytes are no history.
            NeedsUserError: RPL-7161 when a later release stored it.
        """
        try:
            first, *lines = zlib.decompress(stored).decode().split("\n")
            head = json.loads(first)
            check_form("the schema history", head["format"], _FORMAT, head.get("release", ""))
            if head["format"] != _FORMAT:
                raise ValueError("another format")
            history = cls(head["case"])
            history._fill(head, lines, [read_place(place) for place in head["places"]])
            if "from" in head:
                history._from = read_place(head["from"])
        except (ValueError, KeyError, IndexError, TypeError, zlib.error) as err:
            raise HistoryLostError(
                "the stored schema history cannot be read",
                code="RPL-3752",
                hint=f"restore the state folder, or {COPY_AGAIN}",
            ) from err
        return history

    def _fill(self, head: dict[str, Any], lines: list[str], places: list[Place]) -> None:
        self._followed = {name: places[since] for name, since in head["followed"].items()}
        for database, name, steps in head["tables"]:
            table = TableId(database, name)
            timeline: Timeline[Any, TableVersion] = Timeline()
            for place, line in steps:
                timeline.put(places[place], None if line is None else TableVersion(table, lines[line]))
            self._tables[self._now.key(table)] = timeline
        for name, steps in head["databases"].items():
            charsets: Timeline[Any, str] = Timeline()
            for place, charset in steps:
                charsets.put(places[place], charset)
            self._databases[name] = charsets
        self._restore()


def _name(table: TableId, timeline: Timeline[Any, TableVersion]) -> tuple[str, str]:
    """The table's name as it was created, if the table exists."""
    spelled = next((version.table for _, version in timeline if version is not None), table)
    return spelled.database, spelled.table


def _loader(version: TableVersion) -> Callable[[], Entry]:
    return lambda: version.entry
