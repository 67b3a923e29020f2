"""Whatever dies, is sent twice or arrives late: by BigQuery's rules for sequence numbers the table ends as the source is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replicator_sdk.batch import BatchIdentity, ChangeBatch, TableChanges
from replicator_sdk.schema import TableId
from replicator_sdk.testing.histories.history import History
from replicator_sdk.testing.histories.random_history import random_history
from replicator_sdk.testing.target_script import ScriptBuilder
from replicator_target_bigquery.cdc.net_rows import CHANGE_SEQUENCE_NUMBER, CHANGE_TYPE, NetRows
from tests.plugins.targets.bigquery.support.changes import EXACT, KEYED, at, batch, delete, insert, row, update

Sent = dict[str, Any]


@dataclass
class Ingestion:
    """A table as BigQuery keeps it: of each key the change with the highest number, of equal ones the last to arrive."""

    newest: dict[Any, tuple[tuple[int, ...], Sent]] = field(default_factory=dict)

    def take(self, rows: Iterable[Sent]) -> None:
        """Rows arrive, in this order."""
        for one in rows:
            number = tuple(int(section, 16) for section in one[CHANGE_SEQUENCE_NUMBER].split("/"))
            if one["id"] not in self.newest or number >= self.newest[one["id"]][0]:
                self.newest[one["id"]] = (number, one)

    def rows(self, columns: Iterable[str]) -> list[tuple[Any, ...]]:
        """The rows a query finds."""
        there = (one for _, one in self.newest.values() if one[CHANGE_TYPE] == "UPSERT")
        return sorted((tuple(one[c] for c in columns) for one in there), key=repr)


def sent(changes: TableChanges, epoch: int) -> list[Sent]:
    """What a batch sends."""
    parts = list(NetRows(changes, {n: n for n in changes.schema.names}, epoch, EXACT))
    return [
        {name: column[i].as_py() for name, column in part.items()} for part in parts for i in range(len(part["id"]))
    ]


@dataclass(frozen=True)
class Log:
    """Transactions of one table, in order; some change nothing."""

    transactions: tuple[tuple[ChangeBatch, ...], ...]
    rows: list[tuple[Any, ...]]
    columns: tuple[str, ...]

    @classmethod
    def of(cls, history: History) -> Log:
        """What a history does to its keyed table."""
        table = TableId("shop", "keyed")
        builder = ScriptBuilder(history, {"keyed": table})
        found, rows = [], []
        for transaction in history.transactions:
            flush = builder.flush([transaction])
            found.append(tuple(b for item in flush.items if isinstance(item, TableChanges) for b in item.batches()))
            rows = flush.tables[table].rows
        columns = tuple(builder.schemas[0].names)
        return cls(tuple(found), sorted((tuple(r[c] for c in columns) for r in rows), key=repr), columns)

    def between(self, start: int, stop: int, epoch: int, shift: int) -> list[Sent]:
        """What a batch of some transactions sends; a run may number the log's changes otherwise than the one before."""
        batches = [
            replace(b, sequence_numbers=b.sequence_numbers + shift)
            for transaction in self.transactions[start:stop]
            for b in transaction
            if b.sequence_numbers is not None
        ]
        if not batches:
            return []
        identity = BatchIdentity(1, epoch, 0, 0, at(stop))
        return sent(TableChanges(batches[0].schema, identity, batches, rows=1, nbytes=1), epoch)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(random_history(keyless=False, unchanged=False), st.data())
def test_any_history_interrupted_anywhere_ends_as_the_source(history: History, data: st.DataObject) -> None:
    """Runs die with some rows sent and not said to be there; what was on its way arrives at once, later or at the end."""
    log, table = Log.of(history), Ingestion()
    asleep: list[list[Sent]] = []
    position, end = 0, len(log.transactions)
    for epoch in range(1, data.draw(st.integers(1, 4)) + 1):
        shift = data.draw(st.sampled_from([0, 0, 100, 3, 50]))
        while position < end:
            stop = data.draw(st.integers(position + 1, end))
            rows = data.draw(st.permutations(log.between(position, stop, epoch, shift)))
            fate = data.draw(st.sampled_from(["there", "there", "twice", "dies"]))
            arrived = data.draw(st.integers(0, len(rows))) if fate == "dies" else len(rows)
            table.take(rows[:arrived] * (2 if fate == "twice" else 1))
            if fate == "dies":
                asleep.append(rows[arrived:])
                break
            position = stop
            wakes: bool = data.draw(st.booleans())
            if asleep and wakes:
                table.take(asleep.pop())
    if position < end:
        table.take(log.between(position, end, 9, 0))
    for rows in asleep:
        table.take(rows)
    assert table.rows(log.columns) == log.rows


def test_a_key_inserted_and_deleted_in_a_batch_is_deleted_at_the_target() -> None:
    """An attempt that was cut between the two has written it, and died before it said so."""
    table = Ingestion()
    table.take(sent(batch(1, [insert(row(1))]), 1))
    table.take(sent(batch(1, [insert(row(1)), delete({"id": 1})]), 2))
    assert table.rows(KEYED.names) == []


def test_lower_numbers_of_a_newer_run_win_against_an_older_run() -> None:
    """A publication that lost a table numbers the same log lower: the newer run's rows would lose by number alone."""
    table = Ingestion()
    table.take(sent(batch(9, [insert(row(1, "a")), update(row(1, "b"))]), 1))
    table.take(sent(batch(2, [insert(row(1, "a")), update(row(1, "b")), update(row(1, "c"))]), 2))
    assert table.rows(KEYED.names) == [(1, "c", None)]


def test_a_row_that_moves_is_gone_at_its_old_key() -> None:
    swap = [
        update(row(0, "one"), before={"id": 1}),
        update(row(1, "two"), before={"id": 2}),
        update(row(2, "one"), before={"id": 0}),
    ]
    found = {
        (one["id"], one[CHANGE_TYPE], one["name"] if one[CHANGE_TYPE] == "UPSERT" else None)
        for one in sent(batch(1, swap), 1)
    }
    assert found == {(0, "DELETE", None), (1, "UPSERT", "two"), (2, "UPSERT", "one")}


def test_sequence_numbers_are_epoch_and_place_in_the_log_of_fixed_width() -> None:
    (one,) = sent(batch(3, [insert(row(1))]), 26)
    assert one[CHANGE_SEQUENCE_NUMBER] == "1A/0000000000000BB9"
