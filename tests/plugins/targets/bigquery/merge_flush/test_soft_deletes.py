"""Soft deletes: the row of a deleted key stays and is marked, and comes alive again when the key does, as in mode batch."""

from __future__ import annotations

import random
from typing import Any

import pytest

from replicator_sdk.event import DDLOperation, DMLOperation
from replicator_sdk.snapshot import SnapshotChunk
from replicator_sdk.testing.histories.reference import RowChange
from replicator_sdk.testing.in_memory.source import MemoryChunkReader
from tests.plugins.targets.bigquery.merge_flush.support.projects import KEY, merging, streaming
from tests.plugins.targets.bigquery.support.changes import KEYED, at, batch, ddl, delete, insert, row, update
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.bigquery.emulators import Emulators

HELD = "SELECT id, name, _is_deleted, _sequence_num FROM {d}.customers ORDER BY id, name, _sequence_num"


@pytest.fixture
def marking(project: Project) -> Project:
    return streaming(project.emulators, soft_deletes=True)


def history(seed: int, flushes: int) -> list[list[RowChange]]:
    """Flushes of changes of few keys: rows come, change, move and go; deletes of keys that are not there are among them."""
    chance, there, made = random.Random(seed), set[int](), []
    for flush in range(flushes):
        changes = []
        for number in range(chance.randrange(1, 9)):
            key, other, name = chance.randrange(5), chance.randrange(5), f"n{flush}{number}"
            if key not in there and chance.random() < 0.8:
                there.add(key)
                changes.append(insert(row(key, name)))
            elif key not in there or chance.random() < 0.4:
                there.discard(key)
                changes.append(delete({"id": key}))
            elif other == key or other not in there:
                there.symmetric_difference_update({key, other} if other != key else ())
                changes.append(update(row(other, name), before={"id": key}))
        made.append(changes or [insert(row(10 + flush, "more"))])
    return made


def test_tables_look_as_in_mode_batch(marking: Project) -> None:
    """The twin is a table in that mode, which gets the same batches."""
    twin = Project(marking.emulators, soft_deletes=True)
    consumer, other = merging(marking), twin.consumer()
    for position, changes in enumerate(history(6, 5), 1):
        consumer.apply_batch(batch(position, changes))
        consumer.settle([KEYED.table])
        assert consumer.settled(KEYED.table) == at(position)
        other.apply_batch(batch(position, changes))
    found = marking.select(HELD)
    assert found == twin.select(HELD)
    assert {deleted for _, _, deleted, _ in found} == {"true", "false"}
    assert marking.select(f"SELECT COUNT(*) FROM {{d}}.customers WHERE {KEY}.id = id") == [[str(len(found))]]
    consumer.stop()
    other.stop()


@pytest.mark.parametrize("together", [False, True])
def test_without_upserts_every_row_stays_marked_by_its_keys_next_delete(
    bigquery_emulators: Emulators, together: bool
) -> None:
    """However flushes are cut."""
    project = streaming(bigquery_emulators, soft_deletes=True, upsert_enabled=False)
    consumer = merging(project)
    expected: list[list[Any]] = []
    for position, changes in enumerate(history(7, 4), 1):
        consumer.apply_batch(batch(position, changes))
        if not together:
            consumer.settle([KEYED.table])
        for number, change in enumerate(changes, 1000 * position + 1):
            left = (change.before or {}).get("id")
            for held in expected if left != change.row.get("id") else ():
                if held[0] == str(left) and held[2] == "false":
                    held[2:] = ["true", str(number)]
            if change.operation is not DMLOperation.DELETE:
                expected.append([str(change.row["id"]), change.row["name"], "false", str(number)])
    consumer.settle([KEYED.table])
    assert project.select(HELD) == sorted(expected)
    consumer.stop()


def test_a_key_that_is_inserted_again_is_restored(marking: Project) -> None:
    consumer = merging(marking)
    consumer.begin_snapshot(KEYED, "plan", at(1))
    rows = [row(1, "a", "kept"), row(2, "b"), row(3, "c")]
    consumer.load_chunks(KEYED, "plan", [SnapshotChunk(0, {"rest": 0, "of": 1})], MemoryChunkReader(KEYED, rows))
    consumer.finish_snapshot(KEYED, "plan", at(1))
    assert marking.select(HELD) == [[i, n, "false", "0"] for i, n in (("1", "a"), ("2", "b"), ("3", "c"))]
    consumer.apply_batch(
        batch(2, [delete({"id": 1}), delete({"id": 2}), delete({"id": 9}), insert(row(8)), delete({"id": 8})])
    )
    consumer.settle([KEYED.table])
    marked = [["1", "a", "true", "2001"], ["2", "b", "true", "2002"], ["3", "c", "false", "0"]]
    assert marking.select(HELD) == marked, "keys that the table did not have leave nothing"
    consumer.apply_batch(batch(3, [insert(row(2, "again")), update(row(1, "moved"), before={"id": 3})]))
    consumer.settle([KEYED.table])
    alive = [["1", "moved", "false", "3002"], ["2", "again", "false", "3001"], ["3", "c", "true", "3002"]]
    assert marking.select(HELD) == alive
    consumer.apply_batch(batch(4, [update({"id": 1, "note": "n"}), delete({"id": 2})]))  # by a load job: lacks the name
    assert consumer.settled(KEYED.table) == at(4)
    held = [["1", "moved", "false", "4001"], ["2", "again", "true", "4002"], ["3", "c", "true", "3002"]]
    assert marking.select(HELD) == held
    assert marking.read_table(KEYED) == [row(1, "moved", "n")]
    consumer.apply_ddl(ddl(5, DDLOperation.TRUNCATE_TABLE))
    assert marking.count("customers") == 0, "marked rows go too, as in mode batch"
    consumer.stop()
