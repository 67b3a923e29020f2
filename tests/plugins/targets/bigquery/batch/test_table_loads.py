"""A table that waits for `loadInterval` delays neither other tables nor its own later changes."""

from __future__ import annotations

import errno
import pickle
import time
from collections.abc import Callable

import pytest

from replicator_sdk.errors import DataError, RetryableError
from replicator_sdk.event import Alter, AlterKind, DDLOperation
from replicator_sdk.schema import Column, replace_columns
from replicator_target_bigquery.batch import table_loads
from replicator_target_bigquery.batch.consumer import BatchMergeConsumer
from tests.plugins.targets.bigquery.support.changes import (
    KEYED,
    KEYLESS,
    alter,
    at,
    batch,
    ddl,
    delete,
    insert,
    row,
    update,
)
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.bigquery.emulators import Emulators
from tests.services.bigquery.gate import Fault

INTERVAL = 3600.0


@pytest.fixture
def pacing(bigquery_emulators: Emulators) -> Project:
    """A project whose tables are loaded once an hour."""
    bigquery_emulators.gate.clear()
    return Project(bigquery_emulators, load_interval=INTERVAL)


def loading(project: Project, *, epoch: int = 1) -> BatchMergeConsumer:
    made = project.consumer(epoch=epoch)
    assert isinstance(made, BatchMergeConsumer)
    return made


def loads(project: Project) -> int:
    """How many load jobs were asked for."""
    return sum(job.kind == "load" for job in project.emulators.gate.jobs)


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_changes_that_wait_are_loaded_as_one_batch_and_other_tables_go_on(pacing: Project) -> None:
    consumer = loading(pacing)
    began = time.monotonic()
    consumer.apply_batch(batch(1, [insert(row(1, "a"))]))
    for position in range(2, 42):  # each would have waited an hour
        consumer.apply_batch(batch(position, [insert(row(position, "b")), update(row(1, f"a{position}"))]))
    consumer.apply_batch(batch(42, [update({"id": 1, "note": "last"}), delete({"id": 41})]))
    consumer.apply_batch(batch(1, [insert({"name": "other", "number": 1}, KEYLESS)]))
    assert (pacing.count("customers"), pacing.count("log")) == (1, 1)
    assert (consumer.settled(KEYED.table), consumer.settled(KEYLESS.table)) == (at(1), at(1))
    consumer.settle([KEYED.table])
    assert consumer.settled(KEYED.table) == at(42)
    assert time.monotonic() - began < 600
    assert pacing.select("SELECT name, note FROM {d}.customers WHERE id = 1") == [["a41", "last"]]
    assert pacing.count("customers") == 40
    assert loads(pacing) == 3
    consumer.stop()


def test_a_load_begins_by_itself_when_the_interval_is_over(pacing: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = loading(pacing)
    consumer.apply_batch(batch(1, [insert(row(1))]))
    consumer.apply_batch(batch(2, [insert(row(2))]))
    consumer.apply_batch(batch(3, [insert(row(3))]))
    assert consumer.settled(KEYED.table) == at(1)
    monkeypatch.setattr(consumer._rate_limit, "seconds_left", lambda _: 0.0)
    wait_until(lambda: consumer.settled(KEYED.table) == at(3))
    assert (pacing.count("customers"), loads(pacing)) == (3, 2)
    consumer.stop()


def test_much_that_waits_is_loaded_before_the_interval_is_over(
    pacing: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = loading(pacing)
    consumer.apply_batch(batch(1, [insert(row(1))]))
    monkeypatch.setattr(table_loads, "HELD_BYTES", 2 * batch(2, [insert(row(2))]).nbytes)
    consumer.apply_batch(batch(2, [insert(row(2))]))
    assert pacing.count("customers") == 1
    consumer.apply_batch(batch(3, [insert(row(3))]))
    assert (pacing.count("customers"), loads(pacing)) == (3, 2)
    consumer.stop()


def test_what_waits_comes_before_a_change_of_structure(pacing: Project) -> None:
    consumer = loading(pacing)
    consumer.apply_batch(batch(1, [insert(row(1))]))
    consumer.apply_batch(batch(2, [insert(row(2))]))
    consumer.apply_ddl(ddl(3, DDLOperation.TRUNCATE_TABLE))
    consumer.apply_batch(batch(4, [insert(row(4))]))
    wider = replace_columns(KEYED, (*KEYED.columns, Column("more", KEYED["name"].type)))
    consumer.apply_ddl(alter(5, wider, Alter(AlterKind.ADD_COLUMN, wider["more"])))
    consumer.apply_batch(batch(6, [insert(row(6) | {"more": "m"}, wider)]))
    consumer.settle([KEYED.table])
    assert pacing.select("SELECT id, more FROM {d}.customers ORDER BY id") == [["4", None], ["6", "m"]]
    consumer.stop()


def test_why_a_load_failed_is_raised_and_the_next_run_loads_it(pacing: Project) -> None:
    consumer = loading(pacing)
    consumer.apply_batch(batch(1, [insert(row(1))]))
    consumer.apply_batch(batch(2, [insert(row(2))]))
    pacing.emulators.gate.plan(Fault(fails=True, reason="invalid"), on=lambda r: r.kind == "load")
    consumer.settle([KEYED.table])
    with pytest.raises(DataError, match=r"RPL-6518.*shop\.customers"):
        consumer.settled(KEYED.table)
    with pytest.raises(DataError, match="RPL-6518"):
        consumer.apply_batch(batch(3, [insert(row(3))]))
    consumer.stop()
    again = loading(pacing, epoch=2)
    again.apply_batch(batch(2, [insert(row(2))], epoch=2))
    assert pacing.count("customers") == 2
    again.stop()


def test_a_run_that_ends_drops_what_waits_and_leaves_no_file(pacing: Project) -> None:
    consumer = loading(pacing)
    consumer.apply_batch(batch(1, [insert(row(1))]))
    consumer.apply_batch(batch(2, [insert(row(2))]))
    consumer.stop()
    assert pacing.count("customers") == 1
    again = loading(pacing, epoch=2)
    progress = again.progress(KEYED.table)
    assert progress is not None
    assert progress.position == at(1)
    again.stop()


def test_changes_that_are_held_are_not_held_twice(pacing: Project) -> None:
    consumer = loading(pacing)
    consumer.apply_batch(batch(1, [insert({"name": "a", "number": 1}, KEYLESS)]))
    for _ in range(2):
        consumer.apply_batch(batch(2, [insert({"name": "b", "number": 2}, KEYLESS)]))
    consumer.settle([KEYLESS.table])
    assert pacing.count("log") == 2
    consumer.stop()


def test_changes_that_could_not_be_held_whole_are_never_loaded(
    pacing: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = loading(pacing)
    consumer.apply_batch(batch(1, [insert(row(1))]))
    consumer.apply_batch(batch(2, [insert(row(2))]))

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(pickle, "dump", full)
    with pytest.raises(RetryableError, match=r"RPL-6542.*TMPDIR"):
        consumer.apply_batch(batch(3, [insert(row(3))]))
    consumer.settle([KEYED.table])
    assert pacing.count("customers") == 1
    with pytest.raises(RetryableError, match="RPL-6542"):
        consumer.settled(KEYED.table)
    consumer.stop()
