"""Emits the log's events, a window of whole transactions at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from replicator_sdk.authoring.arrow_buffers import Int64s
from replicator_sdk.batch import ChangeBatch
from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.errors import NeedsUserError
from replicator_source_mysql.binlog.batches.decoder import Decoder
from replicator_source_mysql.binlog.event import ROWS, Events, FilePosition
from replicator_source_mysql.ddl.lex.session import Session
from replicator_source_mysql.hints import COPY_AGAIN
from replicator_source_mysql.offset import MySqlOffset
from replicator_source_mysql.streaming.captured_tables import CapturedTables
from replicator_source_mysql.streaming.log_position import BinlogPosition
from replicator_source_mysql.streaming.schema_tracker import SchemaTracker
from replicator_source_mysql.streaming.transactions import Mark, MarkKind, TransactionScanner
from replicator_source_mysql.streaming.xa_transactions import HeldRows, PreparedTransactions


class EventDispatcher:
    """Decodes events and emits their changes; used by the reader's thread.

    Args:
        place: Where the reader is; moved on by every commit.
        structure: What tables look like.
        captured: Which of them are wanted, and how.
        usual: A session of the server, for what a statement's event does not contain.
        context: Metrics.
    """

    def __init__(
        self,
        place: BinlogPosition,
        structure: SchemaTracker,
        captured: CapturedTables,
        usual: Session,
        context: DeltaSourceContext,
    ) -> None:
        self._place = place
        self._structure = structure
        self._captured = captured
        self._context = context
        self._scanner = TransactionScanner(usual)
        self._decoder = Decoder(captured.plan)
        self._prepared = PreparedTransactions()
        self._has_emitted = False  # anything of the open group
        self._rows_until: FilePosition | None = None  # where those of its rows end that were decoded

    def deliver(self, events: Events) -> None:
        """Decode and emit, in parts between positions where definitions change that the log does not show."""
        begin = 0
        for border in self._borders():
            end = _count_until(events, border)
            if end == len(events):
                break
            self._deliver_part(events.part(begin, end))
            begin = end
            self._pass_border(border)
        self._deliver_part(events.part(begin, len(events)))
        self._captured.count_replaced(self._context.metrics)

    def beat(self, heard: FilePosition | None) -> None:
        """Move the offset of an idle source on, to where the server says that it has nothing else to send."""
        if heard is None or self._scanner.is_open:
            return
        there = self._place.idle_at(heard, self._scanner.created(heard.file), self._resume)
        self._place.pass_by(there)
        if self._place.offset < there:
            self._place.commit_at(there)

    # ------------------------------------------------------------ positions the log does not mark

    def _borders(self) -> list[MySqlOffset]:
        """Positions on this server after which more is known of tables, or after which nothing has been emitted yet."""
        known = self._place.known_until
        places = self._structure.due_places() + ([known] if known else [])
        return sorted(place for place in places if place.server == self._place.origin.identity)

    def _pass_border(self, border: MySqlOffset) -> None:
        self._place.pass_by(border)
        if self._structure.learn_due(border):
            self._decoder.forget()

    @property
    def _resume(self) -> str:
        """Where reading would have to begin again for the sake of what is prepared now."""
        earliest = self._prepared.earliest
        return str(earliest) if earliest else ""

    # ------------------------------------------------------------ rows and commits

    def _deliver_part(self, events: Events) -> None:
        """Decode and emit: whole windows between changes of structure, commits in them together."""
        begin = 0
        commits: list[Mark] = []
        for mark in self._scanner.scan(events):
            if mark.kind is MarkKind.COMMIT and self._prepared.current is None:
                commits.append(mark)
                if self._structure.awaits_other_server(self._place.origin.identity):
                    self._emit_window(events, begin, mark.index + 1, commits)
                    begin, commits = mark.index + 1, []
                    self._pass_border(self._place.here)
                continue
            if mark.since is not None and not self._has_rows_after(mark.since):
                events = events.without_rows(slice(max(begin, mark.first), mark.index))
                if mark.kind is MarkKind.PARTIAL_ROLLBACK:
                    continue
            self._emit_window(events, begin, mark.index, commits, mark.begin)
            begin, commits = mark.index, []
            self._interrupt(mark)
        self._emit_window(events, begin, len(events), commits, self._scanner.begin)

    def _has_rows_after(self, place: FilePosition) -> bool:
        """Whether rows of the open group after `place` are decoded already."""
        return self._rows_until is not None and place.position < self._rows_until.position

    def _emit_window(
        self, events: Events, begin: int, end: int, commits: Sequence[Mark], group: FilePosition | None = None
    ) -> None:
        """Emit the row changes of `events[begin:end]`, up to the last commit and after it.

        Args:
            events: The events.
            begin: The first of them.
            end: After the last of them.
            commits: The commits among them.
            group: Where the group begins that is open after the last commit.
        """
        if commits:
            last = commits[-1].index + 1
            ranks = self._emit_rows(events.part(begin, last))
            ends = np.array([mark.index - begin + 1 for mark in commits])
            # What is prepared now: the offsets are asked for later, when other transactions may be.
            self._place.commit_marks(commits, ranks[ends], self._resume)
            self._has_emitted, self._rows_until = False, None
            begin = last
        if begin < end:
            part = events.part(begin, end)
            self._place.ordinal = int(self._emit_rows(part, group)[-1])
            if len(part.where(ROWS)):
                self._rows_until = part.place(len(part) - 1)

    def _emit_rows(self, events: Events, group: FilePosition | None = None) -> Int64s:
        """Emit the row changes of `events`; returns how many are before each event, and in the end.

        Rows that are emitted before their commit is known follow a commit where their group begins, which is `group`.
        """
        ordinal = self._place.ordinal
        if self._prepared.current is not None:
            for batch in self._decoder.decode(events, self._prepared.current.count):
                self._prepared.hold(batch)
            self._prepared.current.count = int(self._decoder.ranks[-1])
        elif not self._place.is_known:
            for batch in self._decoder.decode(events, ordinal):
                if group is not None:
                    self._place.begin_group(group, self._scanner.created(group.file), self._resume)
                self._emit(batch)
            if group is not None and self._decoder.ranks[-1] > ordinal:  # also when no row of the group is captured yet
                self._place.begin_group(group, self._scanner.created(group.file), self._resume)
            return self._decoder.ranks
        return np.full(len(events) + 1, ordinal, np.int64)

    def _emit(self, batch: ChangeBatch) -> None:
        self._place.emitter.emit_batch(batch)
        self._has_emitted = True

    # ------------------------------------------------------------ between row changes

    def _interrupt(self, mark: Mark) -> None:
        """Handle a mark other than a plain commit."""
        if mark.kind is MarkKind.STATEMENT:
            self._statement(mark)
        elif mark.kind is MarkKind.XA_BEGIN:
            # Not after the transaction before it, which another server had where this is the first one after a failover.
            self._prepared.begin(self._place.idle_at(mark.begin, mark.proof.created, ""))
        elif mark.kind is MarkKind.XA_PREPARED and mark.xid is not None:
            self._prepared.prepare(mark.xid)
        elif mark.kind is MarkKind.XA_ROLLBACK and mark.xid is not None:
            self._prepared.roll_back(mark.xid)
        elif mark.kind is MarkKind.XA_COMMIT and mark.xid is not None:
            self._emit_held(self._prepared.commit(mark.xid, str(mark.place)))
        elif mark.kind is MarkKind.COMMIT:
            self._emit_held(self._prepared.take_current())
        elif self._has_emitted or (self._prepared.current is not None and self._prepared.current.batches):
            raise _rolled_back(mark)
        if mark.ends_group:
            self._has_emitted, self._rows_until = False, None
            self._place.commit_at(self._place.after(mark, self._resume), mark.timestamp)

    def _emit_held(self, rows: HeldRows | None) -> None:
        if rows is not None and not self._place.is_known:
            for batch in rows.numbered(self._place.ordinal):
                self._emit(batch)
            self._place.ordinal += rows.count

    def _statement(self, mark: Mark) -> None:
        assert mark.query is not None
        after = self._place.after(mark, self._resume)
        changes = self._structure.follow(mark.query, after, self._captured)
        if any(change is not None for change in changes):
            self._place.begin_group(mark.begin, mark.proof.created, self._resume)
        for change in changes:
            if change is None:
                self._place.pass_over()
            else:
                self._place.emit_structure(change)
                self._has_emitted = True
        self._decoder.forget()


def _count_until(events: Events, place: MySqlOffset) -> int:
    """How many of the events end at `place`, which is between two transactions, or before it."""
    numbers = np.array([MySqlOffset(name, 0).file_number for name in events.names], np.int64)[events.file]
    beyond = (numbers > place.file_number) | ((numbers == place.file_number) & (events.position > place.position))
    return int(beyond.argmax()) if beyond.any() else len(events)


def _rolled_back(mark: Mark) -> NeedsUserError:
    return NeedsUserError(
        "a large transaction was rolled back after row changes in the log, of which some were read before",
        code="RPL-3789",
        position=str(mark.place),
        hint="make transactions smaller that are rolled back after they have made or dropped temporary tables, or changed tables"
        f" without transactions; its rows cannot be left out any more, so {COPY_AGAIN}",
    )
