"""From the log's messages to the emitter, a window of whole transactions at a time."""

from __future__ import annotations

from replicator_sdk.batch import Commits
from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.event import DDLOperation
from replicator_source_postgres.offset import PostgresOffset
from replicator_source_postgres.pgoutput import Decoder, Relation, Truncation, Window
from replicator_source_postgres.pgoutput.images import RelationPlan
from replicator_source_postgres.place import LogPlace
from replicator_source_postgres.quiet_changes import QuietChanges
from replicator_source_postgres.relations import Relations, StructureChange


class Delivery:
    """Decodes messages and emits what they hold; used by the reader's thread.

    Args:
        place: Where the reader is; moved on by every commit.
        relations: The captured tables.
        quiet: What is to be told between transactions.
        context: State and metrics.

    Attributes:
        is_open: Whether the last transaction was emitted without its commit, which is still to come.
    """

    def __init__(self, place: LogPlace, relations: Relations, quiet: QuietChanges, context: DeltaSourceContext) -> None:
        self._place = place
        self._relations = relations
        self._quiet = quiet
        self._context = context
        self._decoder = Decoder(self._plan)
        self.is_open = False

    def deliver(self, messages: list[memoryview | bytes], *, is_full: bool) -> list[memoryview | bytes]:
        """Decode and emit up to the last commit; returns the messages of the transaction still open.

        A transaction that fills a window by itself (`is_full`) is emitted without its commit, ordinals running on.
        """
        window = Window(messages)
        commits = window.commits()
        ends = commits.index + 1
        if not len(ends) and not is_full:
            return messages
        stop = int(ends[-1]) if len(ends) else len(window)
        begin = 0
        for end in self._cuts(window.part(0, stop), ends.tolist(), commits.end_lsn.tolist()):
            part = window.part(begin, end)
            first = part.commits().end_lsn
            self._quiet.retell(int(first[0]) if len(first) else None)
            self._emit_part(part)
            begin = end
        self._count_replaced()
        return messages[stop:]

    def _cuts(self, window: Window, ends: list[int], positions: list[int]) -> list[int]:
        """Where to end windows: a change of structure stands in the first transaction of its window."""
        cuts = {len(window), *self._quiet.cuts(ends, positions)}
        for border in self._decoder.borders(window):
            before = [end for end in ends if end <= border]
            if before:
                cuts.add(before[-1])
        return sorted(cuts)

    def _emit_part(self, part: Window) -> None:
        for item in self._decoder.decode(part, self._place.ordinal):
            if isinstance(item, Truncation):
                self._emit_truncation(item)
            else:
                self._place.emitter.emit_batch(item.batch)
        commits = part.commits()
        ranks = self._decoder.ranks
        self.is_open = not len(commits.index)
        if self.is_open:
            self._place.ordinal = int(ranks[-1])
            return
        ends = commits.end_lsn
        self._place.commit(Commits(ranks[commits.index], commits.timestamp, lambda i: PostgresOffset(int(ends[i]))))

    def _plan(self, relation: Relation, ordinal: int, _: int) -> tuple[RelationPlan | None, int]:
        """Called by the decoder for every relation message; emits what changed."""
        emitted = 0

        def report(change: StructureChange) -> None:
            nonlocal emitted
            self._place.emit_structure(change, ordinal + emitted)
            emitted += 1

        plan = self._relations.learn(relation, report)
        if plan is not None:
            self._relations.seen.save(self._context)
        return plan, emitted

    def _emit_truncation(self, truncation: Truncation) -> None:
        for rank, relation in enumerate(truncation.relations):
            table = self._relations.of(relation)
            if table is not None:
                change = StructureChange(DDLOperation.TRUNCATE_TABLE, table, self._relations.schemas[table])
                self._place.emit_structure(change, truncation.ordinal + rank)

    def _count_replaced(self) -> None:
        for table, counter in self._relations.replaced.items():
            for count in counter.values():
                self._context.metrics.count("source.out_of_range", count, table=table)
            counter.clear()
