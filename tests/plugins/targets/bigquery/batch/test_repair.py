"""Some rows are written again in one commit of this run: other rows and the table's position stay as they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from replicator_sdk.authoring.row_repair import RepairableConsumer
from replicator_sdk.batch import TableChanges
from replicator_sdk.errors import FencedError, ReplicatorError, RetryableError
from replicator_sdk.failpoint import arm
from replicator_sdk.testing.histories.reference import RowChange
from tests.plugins.targets.bigquery.support.project import Project
from tests.plugins.targets.changes import TABLE, at, batch, delete, insert, row, update
from tests.services.bigquery.emulators import Emulators

_MERGING = {
    "mode": "merge-flush",
    "upsert_enabled": True,
    "delete_enabled": True,
    "kafka_key_field_name": "record_key",
    "merge_interval_ms": 200,
}
MODES: dict[str, dict[str, Any]] = {"batch": {}, "merge-flush": _MERGING, "soft deletes": {"soft_deletes": True}}
REPAIR = [delete({"id": 6}), insert(row(2, "b")), insert(row(3, "b")), insert(row(4, "b"))]


@pytest.fixture(params=MODES)
def project(request: pytest.FixtureRequest, bigquery_emulators: Emulators) -> Project:
    bigquery_emulators.gate.clear()
    bigquery_emulators.write_gate.clear()
    return Project(bigquery_emulators, **MODES[request.param])


def begin(project: Project) -> None:
    """Six rows."""
    apply(project, 1, batch(1, [insert(row(key, "a")) for key in range(1, 7)]))


def apply(project: Project, epoch: int, changes: TableChanges) -> None:
    consumer = project.consumer(epoch=epoch)
    consumer.progress(TABLE)
    consumer.apply_batch(changes)
    consumer.settle([TABLE])  # type: ignore[attr-defined]
    consumer.settled(TABLE)  # type: ignore[attr-defined]
    consumer.stop()


def repair(project: Project, changes: list[RowChange], *, epoch: int = 2, position: int = 1) -> None:
    """By a consumer of its own, as the engine does."""
    consumer = project.consumer(epoch=epoch)
    assert isinstance(consumer, RepairableConsumer)
    try:
        consumer.repair_rows(batch(position, changes, epoch=epoch, overlap=True))
    finally:
        consumer.stop()


def damage(project: Project) -> None:
    """One row is there twice, one is gone."""
    project.select("INSERT INTO {d}.customers SELECT * FROM {d}.customers WHERE id = 2")
    project.select("DELETE FROM {d}.customers WHERE id = 3")


def by_key(project: Project) -> list[tuple[int, str]]:
    live = " WHERE _is_deleted IS NOT TRUE" if project.config.soft_deletes else ""
    found = project.select(f"SELECT id, name FROM {{d}}.customers{live} ORDER BY id")
    return [(int(key), name) for key, name in found]


def progress(project: Project, epoch: int) -> object:
    consumer = project.consumer(epoch=epoch)
    found = consumer.progress(TABLE)
    consumer.stop()
    assert found is not None
    return replace(found, batch="")


def test_rows_of_the_keys_are_as_given_and_the_position_stays(project: Project) -> None:
    begin(project)
    damage(project)
    before = progress(project, epoch=2)
    for _ in range(2):
        repair(project, REPAIR)
        assert by_key(project) == [(1, "a"), (2, "b"), (3, "b"), (4, "b"), (5, "a")]
        assert replace(progress(project, epoch=2), epoch=0) == replace(before, epoch=0)  # type: ignore[type-var]
    apply(project, 2, batch(2, [update(row(4, "c")), delete({"id": 1})], epoch=2, overlap=True))
    assert by_key(project) == [(2, "b"), (3, "b"), (4, "c"), (5, "a")]
    if project.config.soft_deletes:
        assert project.select("SELECT COUNT(*) FROM {d}.customers WHERE id = 6 AND _is_deleted") == [["1"]]
    if project.config.kafka_key_field_name:
        assert project.select("SELECT COUNT(*) FROM {d}.customers WHERE record_key.id != id") == [["0"]]
    with pytest.raises(FencedError):
        repair(project, [delete({"id": 5})], epoch=1, position=2)
    assert len(by_key(project)) == 4


@pytest.mark.parametrize("project", ["batch"], indirect=True)
@pytest.mark.parametrize("position", [0, 3])
def test_a_table_at_another_position_is_left_as_it_is(project: Project, position: int) -> None:
    begin(project)
    before = by_key(project)
    with pytest.raises(RetryableError) as raised:
        repair(project, [delete({"id": 1})], position=position)
    assert raised.value.code == "RPL-4115"
    assert by_key(project) == before
    assert str(at(1)) in str(raised.value)


@pytest.mark.parametrize("project", ["batch"], indirect=True)
@pytest.mark.parametrize(
    "place",
    ["bigquery.staging.uploaded", "bigquery.staging.loaded", "bigquery.commit.before", "bigquery.commit.after"],
)
def test_a_repair_that_ends_at_any_step_is_done_again_with_the_rows_of_that_time(project: Project, place: str) -> None:
    """Three runs with changes follow."""
    begin(project)
    damage(project)
    arm(f"{place}=raise")
    with pytest.raises(ReplicatorError):
        repair(project, REPAIR)
    arm("")
    assert by_key(project)[-1] == ((5, "a") if place == "bigquery.commit.after" else (6, "a"))
    repair(project, [delete({"id": 6}), insert(row(2, "c")), insert(row(3, "c")), delete({"id": 4})], epoch=3)
    assert by_key(project) == [(1, "a"), (2, "c"), (3, "c"), (5, "a")]
    for number in range(3):
        changes = batch(
            2 + number, [update(row(5, f"run {number}")), insert(row(10 + number, "new"))], epoch=4 + number
        )
        apply(project, 4 + number, changes)
    assert by_key(project) == [(1, "a"), (2, "c"), (3, "c"), (5, "run 2"), (10, "new"), (11, "new"), (12, "new")]
