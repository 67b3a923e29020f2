"""Decodes a window of messages into one change batch for each table, divided at schema changes."""

from __future__ import annotations

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

PlanRelation = Callable[[Relation, int, int], tuple[RelationPlan | None, int]]
"""Called when a relation appears or changes, with the ordinal and the log position of what follows, after everything
before it was yielded; returns how to decode it (None: it is not captured) and how many events it emitted itself."""


@dataclass(frozen=True, slots=True)
class Truncation:
    """TRUNCATE of one or several tables in one statement.

    Attributes:
        relations: The tables; each counts as one event.
        ordinal: Rank of the first.
        cascade: Whether CASCADE was given; the tables it reached are listed.
        restart_identity: Whether sequences were restarted.
    """

    relations: tuple[Relation, ...]
    ordinal: int
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
    window must come in stream order. Ordinals count every change of the stream, captured or not, so that excluding a
    table does not renumber the others.

    Args:
        plan: Decides how a relation is decoded.

    Attributes:
        ranks: For the window decoded last, once `decode` is exhausted: how many events there are up to and including
            each message, starting at `first`.
    """

    ranks: Int64s

    def __init__(self, plan: PlanRelation) -> None:
        self._plan = plan
        self._relations: dict[int, Relation] = {}
        self._plans: dict[int, RelationPlan | None] = {}

    def decode(self, window: Window, first: int = 0) -> Iterator[RelationChanges | Truncation]:
        """What the window holds, in log order per table.

        Args:
            window: The next messages.
            first: The ordinal of its first event.

        Raises:
            BugError: On a message that violates the protocol.
            DataError: On a value outside its type's range, when the policy is to fail.
        """
        weights = np.isin(window.kind, list(b"IUD")).astype(np.int64)
        begin, ordinal = 0, first
        for index in window.where(b"RTYO").tolist():
            if not self._is_border(window, index):
                continue
            yield from self._changes(window, begin, index, ordinal)
            ordinal += int(weights[begin:index].sum())
            if window.kind[index] == b"R"[0]:
                weights[index] = self._learn(parse_relation(window.payload(index)), ordinal, window.lsn(index))
            else:
                truncation = self._truncation(window.payload(index), ordinal)
                weights[index] = len(truncation.relations)
                yield truncation
            begin, ordinal = index + 1, ordinal + int(weights[index])
        yield from self._changes(window, begin, len(window), ordinal)
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

    def _learn(self, relation: Relation, ordinal: int, lsn: int) -> int:
        plan, events = self._plan(relation, ordinal, lsn)
        self._relations[relation.oid] = relation
        self._plans[relation.oid] = plan
        return events

    def _truncation(self, payload: bytes, ordinal: int) -> Truncation:
        oids, cascade, restart = parse_truncate(payload)
        return Truncation(tuple(self._known(oid) for oid in oids), ordinal, cascade, restart)

    def _known(self, oid: int) -> Relation:
        if oid not in self._relations:
            raise BugError(
                f"the log holds a change of relation {oid}, which it never announced",
                code="RPL-3003",
                hint="restart; a new connection announces every relation again",
            )
        return self._relations[oid]

    def _changes(self, window: Window, begin: int, end: int, first: int) -> Iterator[RelationChanges]:
        """The row changes among messages `begin` to `end`, the first with ordinal `first`."""
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
                yield RelationChanges(relation, decode_rows(window, relation, plan, index[group], ordinals[group]))
