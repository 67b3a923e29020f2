"""Tracks the definitions of tables at every log position that may still be read, kept in state."""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from replicator_sdk.authoring.log_position import StructureChange
from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.errors import HistoryLostError, NeedsUserError, SchemaDriftError
from replicator_sdk.schema import TableId
from replicator_source_mysql.binlog.event import FilePosition
from replicator_source_mysql.binlog.log_availability import Origin
from replicator_source_mysql.binlog.query_event import Query
from replicator_source_mysql.connect.connection import variables
from replicator_source_mysql.ddl.apply.table_change import TableChange
from replicator_source_mysql.ddl.history.schema_history import SchemaHistory
from replicator_source_mysql.ddl.parse.effect import Harmless, StatementDml
from replicator_source_mysql.ddl.parse.statement import read_statement
from replicator_source_mysql.definition import TableDefinition
from replicator_source_mysql.hints import COPY_AGAIN, COPY_TABLE_AGAIN
from replicator_source_mysql.offset import MySqlOffset
from replicator_source_mysql.starts.former_tables import former_tables
from replicator_source_mysql.starts.log_walk import LogWalk
from replicator_source_mysql.streaming.captured_tables import CapturedTables, net_moves
from replicator_source_mysql.streaming.database_changes import database_changes
from replicator_source_mysql.streaming.rename_decisions import RenameDecisions
from replicator_source_mysql.streaming.schema_baseline import Baseline, read_baseline

if TYPE_CHECKING:
    import pymysql

HISTORY_KEY = "schema-history"
LATER_KEY = "schema-later"
_FEW_STEPS = 100


@dataclass(slots=True)
class _LateBaseline:
    """A baseline of tables that were captured before reading had reached its offset.

    Kept when the history has taken it over, since a restart may go back before it.
    """

    baseline: Baseline
    is_taken: bool = False


class SchemaTracker:
    """The schema history of one replicator, and baselines of tables that were captured after the position being read.

    Used by one thread. A change is stored before the offset after it is emitted, so that a restart at any saved offset finds
    what it needs; what is after that offset is forgotten and read again.
    """

    def __init__(self, context: DeltaSourceContext) -> None:
        self._context = context
        self._history: SchemaHistory | None = None
        self._later: list[_LateBaseline] = []
        self._decisions = RenameDecisions(context)
        self._prune_at = 0

    # ------------------------------------------------------------ before the run

    def begin(self, connection: pymysql.Connection[Any], origin: Origin, tables: Collection[TableId]) -> MySqlOffset:
        """Begin the history at the end of the log; returns that offset."""
        baseline = read_baseline(connection, origin, {table.database for table in tables}, tables)
        self._begin(baseline, _name_mode(connection))
        return baseline.offset

    def begin_at(
        self,
        connection: pymysql.Connection[Any],
        walk: LogWalk,
        offset: MySqlOffset,
        tables: Mapping[TableId, Collection[str] | None],
    ) -> Mapping[TableId, TableDefinition]:
        """Begin the history at `offset`, with what the tables were there.

        Args:
            connection: To the server.
            walk: Goes through its log.
            offset: An earlier position of it.
            tables: The captured tables, with the selected columns where they are narrowed.

        Returns:
            Their definitions there; of one that was created later the first one.

        Raises:
            NeedsUserError: RPL-3818 when one is not known; RPL-3816 as `LogWalk.statements`.
        """
        now = read_baseline(connection, walk.origin, {table.database for table in tables}, list(tables))
        start, end = (FilePosition(place.file, place.position) for place in (offset, now.offset))
        mode = _name_mode(connection)
        former = former_tables(now, walk.statements(start, end), offset, tables, mode)
        self._begin(former.known, mode)
        return former.captured

    def _begin(self, baseline: Baseline, mode: int) -> None:
        self._history = SchemaHistory.begin(
            baseline.offset, baseline, lower_case_table_names=mode, indexes=baseline.indexes
        )
        self._later = []
        self._decisions.begin()
        self._save_later()
        self._save()

    def resume(self, offset: MySqlOffset) -> None:
        """Go back to what was known at `offset`.

        Raises:
            HistoryLostError: When the history is gone from state.
        """
        self._history = stored_history(self._context.get_state(HISTORY_KEY), offset)
        self._history.rewind(offset)
        self._decisions.resume()
        self._later = _load_later(self._context.get_state(LATER_KEY))
        for later in self._later:
            later.is_taken &= not offset < later.baseline.offset
        self.learn_due(offset)

    def capture(
        self,
        connection: pymysql.Connection[Any],
        origin: Origin,
        tables: Sequence[TableId],
    ) -> None:
        """Learn the definitions of tables that the history does not know: as of the log's end, for when that is reached."""
        unknown = [table for table in tables if not self._knows(table)]
        if not unknown:
            return
        self._later.append(
            _LateBaseline(read_baseline(connection, origin, {table.database for table in unknown}, unknown))
        )
        self._save_later()

    def _knows(self, table: TableId) -> bool:
        return (self._open.knows(table) and not self._open.unknown(table)) or self._comes(table)

    def _comes(self, table: TableId) -> bool:
        return any(table in later.baseline.definitions for later in self._later if not later.is_taken)

    # ------------------------------------------------------------ the run

    def definition(self, table: TableId) -> TableDefinition | None:
        """The table as it is where reading has come to; None while its rows are from before it was captured."""
        if self._open.knows(table):
            return self._open.definition(table)
        if self._comes(table):
            return None
        raise SchemaDriftError(
            "the log holds rows of a table that the schema history does not know",
            code="RPL-3792",
            table=str(table),
            hint=f"let the log have each CREATE TABLE (sql_log_bin = 1), or report it; {COPY_TABLE_AGAIN}",
        )

    def follow(self, query: Query, after: MySqlOffset, captured: CapturedTables) -> list[StructureChange | None]:
        """Follow one statement; `after` is where it ends. Durable on return. None as in `CapturedTables.net`.

        Raises:
            NeedsUserError: When it changes rows of a captured table without row events.
            SchemaDriftError: When it is not understood and touches a captured table.
        """
        effects = read_statement(query.text, query.session)
        for effect in effects:
            if isinstance(effect, StatementDml):
                _refuse_statement(effect.tables, captured, after)
        if all(isinstance(effect, (Harmless, StatementDml)) for effect in effects):
            return []
        changes = self._open.apply(effects, after)
        net = captured.net(changes, renames=self._are_renames(changes, after, captured))
        if changes:
            self._save()
        return [*net, *database_changes(effects, self._open.spelled)]

    def _are_renames(self, changes: Sequence[TableChange], after: MySqlOffset, captured: CapturedTables) -> bool:
        """Whether a statement is emitted as renames, as it was where it was read first."""
        kept = self._decisions.at(after) if net_moves(changes) else False
        if kept is not None:
            return kept
        renamed = captured.are_renames(changes)
        if renamed is not None:
            self._decisions.keep(after, renamed)
        return bool(renamed)

    def due_places(self) -> list[MySqlOffset]:
        """The positions that reading has to reach before `learn_due` has something to do."""
        return [later.baseline.offset for later in self._later if not later.is_taken]

    def awaits_other_server(self, identity: str) -> bool:
        """Whether one of those positions is in the log of another server than `identity`."""
        return any(place.server != identity for place in self.due_places())

    def learn_due(self, offset: MySqlOffset) -> bool:
        """Take over what was learned for `offset` and before; returns whether there was any."""
        due = self._due(offset)
        for later in due:
            self._open.extend(later.baseline.offset, later.baseline, indexes=later.baseline.indexes)
            later.is_taken = True
        if due:
            self._save()
            self._save_later()
        return bool(due)

    def _due(self, offset: MySqlOffset) -> list[_LateBaseline]:
        return [later for later in self._later if not later.is_taken and not offset < later.baseline.offset]

    @property
    def _open(self) -> SchemaHistory:
        assert self._history is not None
        return self._history

    def _save(self) -> None:
        self._forget_old()
        self._context.put_state(HISTORY_KEY, self._open.dump())

    def _forget_old(self) -> None:
        """Forget what no offset needs to which one could go back, when there is twice as much as was left the last time."""
        if self._open.steps < self._prune_at:
            return
        offset = self._context.oldest_offset()
        if isinstance(offset, MySqlOffset):
            oldest = offset.reading_from
            self._open.prune(oldest)
            self._decisions.prune(oldest)
            self._later = [later for later in self._later if not later.is_taken or oldest < later.baseline.offset]
        self._prune_at = 2 * self._open.steps + _FEW_STEPS

    def _save_later(self) -> None:
        stored = [{"taken": later.is_taken, **later.baseline.to_json()} for later in self._later]
        self._context.put_state(LATER_KEY, zlib.compress(json.dumps(stored).encode()))


def stored_history(stored: bytes | None, offset: MySqlOffset) -> SchemaHistory:
    """The history as it is kept in state under `HISTORY_KEY`.

    Raises:
        HistoryLostError: RPL-3791 when it is gone; as `SchemaHistory.load`.
    """
    if stored is None:
        raise HistoryLostError(
            "the schema history is gone from state, and without it the log cannot be decoded",
            code="RPL-3791",
            position=str(offset),
            hint=f"restore the state folder, or {COPY_AGAIN}",
        )
    return SchemaHistory.load(stored)


def _name_mode(connection: pymysql.Connection[Any]) -> int:
    return int(variables(connection, "lower_case_table_names").get("lower_case_table_names", "0"))


def _load_later(stored: bytes | None) -> list[_LateBaseline]:
    found = json.loads(zlib.decompress(stored)) if stored else []
    return [_LateBaseline(Baseline.from_json(value), value["taken"]) for value in found]


def _refuse_statement(tables: Collection[TableId], captured: CapturedTables, place: MySqlOffset) -> None:
    """Rows changed by a statement are not in the log; a statement that names no captured table is ignored."""
    touched = [table for table in tables if table in captured]
    if tables and not touched:
        return
    again = COPY_TABLE_AGAIN if touched else COPY_AGAIN
    raise NeedsUserError(
        "rows were changed by a statement that was logged as text (binlog_format is not ROW)",
        code="RPL-3793",
        table=str(touched[0]) if touched else None,
        position=str(place),
        hint=f"set binlog_format=ROW for all sessions, then {again}",
    )
