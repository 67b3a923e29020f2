"""Decodes a window of messages into one change batch for each table, divided at schema changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from replicator_sdk.authoring.arrow_buffers import Int64s
from replicator_sdk.batch import ChangeBatch
from replicator_sdk.errors import BugError
from replicator_sdk.schema import TableId
from replicator_source_postgres.pgoutput.images import RelationPlan, decode_rows
from replicator_source_postgres.pgoutput.message import (
    Relation,
    check_origin,
    check_type,
    parse_relation,
    parse_truncate,
)
from replicator_source_postgres.pgoutput.window import Window, int32_at

PlanRelation = Callable[[Relation, Callable[[TableId], int]], RelationPlan | None]
"""Called when a relation appears or changes, after everything before it was yielded, with what takes the ordinal of a
table's next change of structure; returns how to decode it (None: it is not captured)."""


@dataclass(frozen=True, slots=True)
class Truncation:
    """TRUNCATE of one or several tables in one statement.

    Attributes:
        relations: The tables; each counts as one event.
        ordinals: The ordinal of each.
        cascade: Whether CASCADE was given; the tables it reached are listed.
        restart_identity: Whether sequences were restarted.
    """

    relations: tuple[Relation, ...]
    ordinals: tuple[int, ...]
    cascade: bool
    restart_identity: bool


@dataclass(frozen=True, slots=True)
class RelationChanges:
    """Changes of one table, decoded, with the relation they were written under."""

    relation: Relation
    batch: ChangeBatch


class Decoder:
    """Decodes one connection's stream; used by one thread.

    Relations are announced once per connection and remembered here, so a new connection needs a new decoder and every
    window must come in stream order.

    An ordinal counts every change of rows of the stream, captured or not, and the changes of structure that the same
    transaction made before to the same table. Those of other tables are left out: which of them are emitted depends on the
    selection, and on when those tables were copied. So a replay gives a table's events the ordinals that they had.

    Args:
        plan: Decides how a relation is decoded.

    Attributes:
        ranks: For the window decoded last, once `decode` is exhausted: how many events there are up to and including
            each message, changes of structure of all tables included, starting at `first`.
    """

    ranks: Int64s

    def __init__(self, plan: PlanRelation) -> None:
        self._plan = plan
        self._relations: dict[int, Relation] = {}
        self._plans: dict[int, RelationPlan | None] = {}
        self._structure: Counter[TableId] = Counter()
        """Changes of structure in the open transaction, by table."""

    def decode(self, window: Window, first: int = 0) -> Iterator[RelationChanges | Truncation]:
        """What the window holds, in log order per table.

        Args:
            window: The next messages; only the first transaction in them, which may have begun before, changes structure.
            first: How many events there are before its first one.

        Raises:
            BugError: On a message that violates the protocol.
            DataError: On a value outside its type's range, when the policy is to fail.
        """
        weights = np.isin(window.kind, list(b"IUD")).astype(np.int64)
        begin, ordinal = 0, first
        commits = window.where(b"C").tolist()
        for index in window.where(b"RTYO").tolist():
            if not self._is_border(window, index):
                continue
            yield from self._changes(window, begin, index, ordinal, open_until=index)
            ordinal += int(weights[begin:index].sum())
            if window.kind[index] == b"R"[0]:
                weights[index] = self._learn(parse_relation(window.payload(index)), ordinal)
            else:
                truncation = self._truncation(window.payload(index), ordinal)
                weights[index] = len(truncation.relations)
                yield truncation
            begin, ordinal = index + 1, ordinal + int(weights[index])
        yield from self._changes(window, begin, len(window), ordinal, open_until=min(commits, default=len(window)))
        if commits:
            self._structure.clear()
        self.ranks = first + np.cumsum(weights)

    def rename(self, oid: int, table: TableId) -> None:
        """What follows of this relation is decoded under another name of its table; the server does not announce it again."""
        plan = self._plans.get(oid)
        if plan is not None:
            self._plans[oid] = plan.renamed(table)

    def borders(self, window: Window) -> list[int]:
        """Ranks of the messages at which the structure of a table may change; decodes nothing."""
        return [index for index in window.where(b"RT").tolist() if self._is_border(window, index)]

    def _is_border(self, window: Window, index: int) -> bool:
        """Check one rare message; returns whether a batch must end before it.

        A relation announced again with the same columns counts, too: a column that was dropped and added again looks the
        same, and only the catalogue shows the difference.
        """
        kind, payload = chr(int(window.kind[index])), window.payload(index)
        if kind in "RT":
            return True
        {"Y": check_type, "O": check_origin}[kind](payload)
        return False

    def _learn(self, relation: Relation, ordinal: int) -> int:
        """Plan how to decode a relation; returns how many changes of structure were emitted meanwhile."""
        before = self._structure.total()

        def take(table: TableId) -> int:
            self._structure[table] += 1
            return ordinal - before + self._structure[table] - 1

        plan = self._plan(relation, take)
        self._relations[relation.oid] = relation
        self._plans[relation.oid] = plan
        return self._structure.total() - before

    def _truncation(self, payload: bytes, ordinal: int) -> Truncation:
        oids, cascade, restart = parse_truncate(payload)
        ordinals = tuple(ordinal + rank - self._of_others(oid) for rank, oid in enumerate(oids))
        return Truncation(tuple(self._known(oid) for oid in oids), ordinals, cascade, restart)

    def _of_others(self, oid: int) -> int:
        """How many changes of structure the open transaction has made to other tables than this relation's."""
        plan = self._plans.get(oid)
        return self._structure.total() - (0 if plan is None else self._structure[plan.schema.table])

    def _known(self, oid: int) -> Relation:
        if oid not in self._relations:
            raise BugError(
                f"the log holds a change of relation {oid}, which it never announced",
                code="RPL-3003",
                hint="restart; a new connection announces every relation again",
            )
        return self._relations[oid]

    def _changes(self, window: Window, begin: int, end: int, first: int, open_until: int) -> Iterator[RelationChanges]:
        """The row changes among messages `begin` to `end`, after `first` events; the open transaction ends at `open_until`."""
        index = begin + np.flatnonzero(np.isin(window.kind[begin:end], list(b"IUD")))
        if not len(index):
            return
        ordinals = first + np.arange(len(index), dtype=np.int64)
        oids = int32_at(window.data, window.start[index] + 1)
        order = np.argsort(oids, kind="stable")
        cuts = np.flatnonzero(np.diff(oids[order])) + 1
        for group in np.split(order, cuts):
            relation = self._known(int(oids[group[0]]))
            plan = self._plans[relation.oid]
            if plan is not None:
                of_table = ordinals[group] - self._of_others(relation.oid) * (index[group] < open_until)
                yield RelationChanges(relation, decode_rows(window, relation, plan, index[group], of_table))
