"""Rows that get another key, by updates that do not carry all columns: right, or an error, never lost."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from replicator_sdk.errors import DataError, NeedsUserError, SnapshotNeededError
from replicator_sdk.event import Alter, AlterKind, DDLOperation
from replicator_sdk.testing.histories.reference import RowChange
from tests.plugins.targets.bigquery.cdc.conftest import streaming as changing
from tests.plugins.targets.bigquery.merge_flush.support.projects import settle
from tests.plugins.targets.bigquery.merge_flush.support.projects import streaming as merging
from tests.plugins.targets.bigquery.support.changes import KEYED, alter, batch, ddl, delete, insert, row, update
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.bigquery.emulators import Emulators

MODES: dict[str, Any] = {"batch": Project, "merge-flush": merging, "cdc": changing}
SEEDS = range(3)
_KEYS = 5


def history(seed: int, batches: int) -> list[tuple[list[RowChange], list[dict[str, Any]]]]:
    """Batches of changes of few keys, and what the table holds after each; half the updates lack a column."""
    chance, held, made = random.Random(seed), dict[int, dict[str, Any]](), []
    for number in range(batches):
        changes: list[RowChange] = []
        while len(changes) < chance.randrange(1, 9):
            free = [k for k in range(_KEYS) if k not in held]
            value = f"v{number}{len(changes)}"
            if not held or (free and chance.random() < 0.35):
                key = chance.choice(free)
                held[key] = row(key, value, value)
                changes.append(insert(held[key]))
                continue
            key = chance.choice(sorted(held))
            if chance.random() < 0.25:
                del held[key]
                changes.append(delete({"id": key}))
                continue
            to = chance.choice(free) if free and chance.random() < 0.5 else key
            sent = {"id": to, "name": value, "note": value}
            if chance.random() < 0.6:
                del sent[chance.choice(("name", "note"))]
            held[to] = {**held.pop(key), **sent}
            changes.append(update(sent, before={"id": key}))
        made.append((changes, [held[key] for key in sorted(held)]))
    return made


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("soft_deletes", [False, True])
@pytest.mark.parametrize("mode", ["batch", "merge-flush"])
def test_rows_are_where_they_moved_to(
    bigquery_emulators: Emulators, mode: str, soft_deletes: bool, overlap: bool, seed: int
) -> None:
    bigquery_emulators.gate.clear()
    project = MODES[mode](bigquery_emulators, soft_deletes=soft_deletes)
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    for position, (changes, wanted) in enumerate(history(seed, 4), 1):
        consumer.apply_batch(batch(position, changes, overlap=overlap))
        settle(consumer)
        assert sorted(project.read_table(KEYED), key=lambda r: r["id"]) == wanted
    consumer.stop()


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_an_update_of_a_missing_row_is_never_dropped(bigquery_emulators: Emulators, mode: str, overlap: bool) -> None:
    """It lacks a column, which only the missing row would have: as Debezium's moves of large values do."""
    bigquery_emulators.gate.clear()
    project = MODES[mode](bigquery_emulators)
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    consumer.apply_batch(batch(1, [insert(row(1, "a", "b"))]))
    settle(consumer)
    moved = batch(2, [update({"id": 3, "name": "new"}, before={"id": 2})], overlap=overlap)
    expected = NeedsUserError if mode == "cdc" else SnapshotNeededError if overlap else DataError
    with pytest.raises(expected) as err:
        consumer.apply_batch(moved)
    assert err.value.table == "shop.customers"
    assert project.read_table(KEYED) == [row(1, "a", "b")]
    consumer.stop()


def test_a_deleted_row_is_not_restored_by_a_new_key(bigquery_emulators: Emulators) -> None:
    """Two marked rows and a live one have one name; the name becomes the key."""
    bigquery_emulators.gate.clear()
    project = Project(bigquery_emulators, soft_deletes=True)
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    rows = [row(1, "x", "old"), row(2, "x", "older"), row(3, "y", "gone"), row(4, "y", "gone later"), row(5, "z")]
    consumer.apply_batch(batch(1, [insert(r) for r in rows]))
    consumer.apply_batch(batch(2, [delete({"id": i}) for i in (1, 2, 3, 4)]))
    consumer.apply_batch(batch(3, [insert(row(6, "x", "live"))]))
    named = replace(KEYED, primary_key=("name",))
    consumer.apply_ddl(alter(4, named, Alter(AlterKind.CHANGE_KEY)))
    changes = [
        update(row(6, "x", "changed"), named),
        update({"id": 7, "name": "z"}, named),
        insert(row(8, "y", "again"), named),
    ]
    consumer.apply_batch(batch(5, changes))
    held = project.select("SELECT id, name, note, _is_deleted FROM {d}.customers ORDER BY id")
    assert held == [["6", "x", "changed", "false"], ["7", "z", None, "false"], ["8", "y", "again", "false"]]
    consumer.stop()


@pytest.mark.parametrize("mode", MODES)
def test_a_table_removed_at_the_target_is_copied_again(bigquery_emulators: Emulators, mode: str) -> None:
    """An empty one in its place would miss the rows it had."""
    bigquery_emulators.gate.clear()
    project = MODES[mode](bigquery_emulators)
    first = project.consumer()
    first.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    first.apply_batch(batch(1, [insert(row(1))]))
    settle(first)
    first._clients.bigquery.delete_table(f"{project.dataset}.customers")
    first.stop()
    second = project.consumer(epoch=2)
    with pytest.raises(SnapshotNeededError) as err:
        second.apply_batch(batch(2, [insert(row(2))], epoch=2))
    assert err.value.code == "RPL-6556"
    second.stop()
