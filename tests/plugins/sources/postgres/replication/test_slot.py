"""A slot that lost its log, or is another's, stops the source; a slot in use is waited for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.control.reset import reset
from replicator_sdk import StoredState
from replicator_sdk.errors import (
    FencedError,
    HistoryLostError,
    NeedsUserError,
    RetryableError,
)
from replicator_sdk.testing.contexts import CollectingEmitter
from replicator_source_postgres import PostgresOffset
from replicator_source_postgres.replication.ownership import CREATED_KEY
from tests.follows import follows
from tests.plugins.sources.postgres.faults import PREPARED, ids, publication_of, slot_of
from tests.plugins.sources.postgres.pipeline import Host, Pipeline
from tests.plugins.sources.postgres.pump import Pump
from tests.services.postgres.fixtures import PrivatePostgres

CONFIRMED = "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE database = current_database() AND NOT temporary"


def is_refused(pump: Pump, code: str) -> None:
    """By an assessment, too, before a run."""
    context, offset = pump.context, pump.offset
    assert offset is not None
    with pytest.raises(HistoryLostError, match=code):
        pump.source.check_log(offset, namespace=context.namespace, name=context.replicator_name)


def test_a_dropped_slot_is_lost_history_and_is_not_created_again(pump: Pump) -> None:
    pump.database.execute(f"SELECT pg_drop_replication_slot('{slot_of(pump)}')")
    is_refused(pump, "RPL-3203")
    with pytest.raises(HistoryLostError, match="RPL-3203"):
        pump.read()
    assert pump.database.execute("SELECT count(*) FROM pg_replication_slots WHERE NOT temporary")[0][0] == 0


def test_a_slot_confirmed_beyond_the_offset_is_lost_history(pump: Pump) -> None:
    old = pump.offset
    pump.database.execute("INSERT INTO t VALUES (1)")
    pump.read()
    pump.database.execute(f"SELECT pg_replication_slot_advance('{slot_of(pump)}', pg_current_wal_lsn())")
    pump.offset = old
    is_refused(pump, "RPL-3204")
    with pytest.raises(HistoryLostError, match="RPL-3204"):
        pump.read()


def test_an_offset_beyond_the_end_of_the_log_is_another_history(pump: Pump) -> None:
    pump.offset = PostgresOffset(1 << 60)
    is_refused(pump, "RPL-3205")
    with pytest.raises(HistoryLostError, match="RPL-3205"):
        pump.prepare()


def test_a_slot_of_another_plugin_is_refused(pump: Pump) -> None:
    db = pump.database
    db.execute("SELECT pg_create_logical_replication_slot('other_plugin', 'test_decoding')")
    with pytest.raises(NeedsUserError, match="RPL-3206"):
        Pump(db, "t", slot="other_plugin").prepare()


def test_a_slot_for_two_phase_commits_is_refused(pump: Pump) -> None:
    """It sends what is prepared, and perhaps rolled back, by messages of its own."""
    db, slot = pump.database, f"{pump.database.name}_two_phase"
    db.execute(f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput', false, true)")
    with pytest.raises(NeedsUserError, match=r"RPL-3206.*prepared"):
        Pump(db, "t", slot=slot).prepare()


@follows("RPL-3202")
def test_a_slot_whose_log_was_removed_is_lost_history(private_postgres: PrivatePostgres, tmp_path: Path) -> None:
    server = private_postgres(max_slot_wal_keep_size="1MB", max_wal_size="32MB", min_wal_size="32MB")
    with server.database() as db:
        db.execute(PREPARED)
        pump = Pump(db, "t")
        pump.prepare()
        pipeline = Pipeline(db, tmp_path, "t")
        pipeline.run()
        for _ in range(4):
            db.execute("INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(1, 20000) i; TRUNCATE t")
            db.execute("SELECT pg_switch_wal()")
            db.execute("CHECKPOINT")
        is_refused(pump, "RPL-3202")
        with pytest.raises(HistoryLostError, match="RPL-3202"):
            pump.read()
        with pytest.raises(HistoryLostError, match=r"RPL-3202.*replicator reset PIPELINE"):
            pipeline.run()
        db.execute("INSERT INTO t VALUES (1)")
        reset(build_pipeline(pipeline.document, host=Host()))  # type: ignore[arg-type]
        pipeline.run()
        db.execute("INSERT INTO t VALUES (2)")
        pipeline.run()
        pipeline.assert_equal()


def test_a_slot_in_use_is_waited_for_and_then_reported(pump: Pump, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never is the other session killed."""
    monkeypatch.setattr("replicator_source_postgres.streaming.reader._SLOT_WAIT_SECONDS", 1.0)
    with pump.running() as run:
        run.wait_until(lambda: bool(pump.database.execute("SELECT 1 FROM pg_stat_replication")))
        run.wait_until(
            lambda: bool(
                pump.database.execute(
                    f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{slot_of(pump)}' AND active"
                )
            )
        )
        with pytest.raises(RetryableError, match="RPL-3104"):
            pump.reader(CollectingEmitter())
        assert pump.offset is not None
        pump.source.check_log(pump.offset, namespace=pump.context.namespace, name=pump.context.replicator_name)
        pump.database.execute("INSERT INTO t VALUES (1)")
        run.wait_for(pump.source.latest_offset())
        assert [row["id"] for _, row, _, _ in run.changes("t")] == [1]


def test_a_start_that_crashed_before_its_first_offset_starts_from_scratch(pump: Pump) -> None:
    """The slot is there, no offset was saved: the slot is ours and is made again."""
    pump.database.execute("INSERT INTO t VALUES (1)")
    pump.offset = None
    pump.prepare()
    pump.database.execute("INSERT INTO t VALUES (2)")
    assert ids(pump) == [2]


def test_a_replicator_of_the_same_name_with_another_state_leaves_the_slot_to_the_first(pump: Pump) -> None:
    pump.prepare()
    pump.database.execute("INSERT INTO t VALUES (1)")
    other = Pump(pump.database, "t")  # the same name, and a state of its own
    with pytest.raises(NeedsUserError, match=r"RPL-3214.*another `name`"):
        other.prepare()
    assert ids(pump) == [1]
    other.context.generation = 2  # as `replicator reset` begins
    other.context.former = [never_ran()]
    with pytest.raises(NeedsUserError, match=r"RPL-3214.*--lost-state"):
        other.prepare()
    pump.database.execute("INSERT INTO t VALUES (3)")
    assert ids(pump) == [3]
    other.context.lost = True  # as `replicator reset --lost-state` begins
    other.prepare()
    pump.database.execute("INSERT INTO t VALUES (2)")
    assert ids(other) == [2]
    is_refused(pump, "RPL-3204")


def never_ran() -> StoredState:
    return StoredState(lambda: None, lambda _: None)


def test_a_generation_that_a_reset_begins_takes_over_the_slot_of_the_one_before(pump: Pump) -> None:
    pump.database.execute("INSERT INTO t VALUES (1)")
    pump.read()
    later = Pump(pump.database, "t")
    later.context.generation = 3
    former = StoredState(lambda offset=pump.offset: offset, pump.context.get_state)  # type: ignore[misc]
    later.context.former = [never_ran(), former]
    later.prepare()
    pump.database.execute("INSERT INTO t VALUES (2)")
    assert ids(later) == [2]


def test_after_the_slot_was_created_again_by_another_state_a_reset_or_a_heal_leaves_it(pump: Pump) -> None:
    """Both begin without an offset where the state has one."""
    pump.read()
    pump.database.execute(f"SELECT pg_drop_replication_slot('{slot_of(pump)}')")
    other = Pump(pump.database, "t")
    other.prepare()
    later = Pump(pump.database, "t")
    later.context.generation = 2
    later.context.former = [StoredState(pump.context.get_offset, pump.context.get_state)]
    pump.offset = None  # as a heal
    for one in (later, pump):
        with pytest.raises(NeedsUserError, match="RPL-3214"):
            one.prepare()
    pump.database.execute("INSERT INTO t VALUES (1)")
    assert ids(other) == [1]


@pytest.mark.parametrize("point", ["postgres.slot.dropped", "postgres.slot.noted", "postgres.slot.created"])
def test_a_first_start_that_was_cut_off_begins_again_and_leaves_the_slot_of_another_state(
    pump: Pump, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """What was cut off: the creation after a first start that had crashed, too, so that a slot was dropped."""
    pump.offset = None
    cut_off(pump, monkeypatch, point)
    left, other = pump.database.execute(CONFIRMED), Pump(pump.database, "t")
    if left:
        with pytest.raises(NeedsUserError, match="RPL-3214"):
            other.prepare()
        assert pump.database.execute(CONFIRMED) == left
    else:
        other.prepare()
        with pytest.raises(NeedsUserError, match="RPL-3214"):
            pump.prepare()
        pump.database.execute("INSERT INTO t VALUES (1)")
        assert ids(other) == [1]
        pump.database.execute(f"SELECT pg_drop_replication_slot('{slot_of(other)}')")
    pump.prepare()
    pump.database.execute("INSERT INTO t VALUES (2)")
    assert ids(pump) == [2]


def cut_off(pump: Pump, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    def end(reached: str) -> None:
        if reached == point:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("replicator_source_postgres.replication.ownership.failpoint", end)
        with pytest.raises(KeyboardInterrupt):
            pump.prepare()


def test_a_server_with_one_slot_to_spare_is_enough(private_postgres: PrivatePostgres) -> None:
    with private_postgres(max_replication_slots=1).database() as db:
        db.execute(PREPARED)
        pump = Pump(db, "t")
        pump.prepare()
        pump.offset = None
        pump.prepare()
        db.execute("INSERT INTO t VALUES (1)")
        assert ids(pump) == [1]


def between_look_and_creation(pump: Pump, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """What happens once a first start has seen that there is no slot, and before it creates one."""
    put = pump.context.put_state

    def act_once(key: str, value: bytes) -> None:
        put(key, value)
        if key == CREATED_KEY and value:
            monkeypatch.undo()
            act()

    monkeypatch.setattr(pump.context, "put_state", act_once)


def test_of_two_that_start_at_the_same_moment_the_second_leaves_the_slot_to_the_first(
    pump: Pump, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Pump(pump.database, "t")  # the same name, and a state of its own

    def start() -> None:
        with pytest.raises(RetryableError, match="RPL-3104"):
            other.prepare()

    pump.database.execute(f"SELECT pg_drop_replication_slot('{slot_of(pump)}')")
    pump.offset = None
    between_look_and_creation(pump, monkeypatch, start)
    pump.prepare()
    pump.database.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(NeedsUserError, match="RPL-3214"):
        other.prepare()
    assert ids(pump) == [1]


def test_a_slot_that_was_created_since_the_look_is_not_taken_over(pump: Pump, monkeypatch: pytest.MonkeyPatch) -> None:
    slot = slot_of(pump)
    pump.database.execute(f"SELECT pg_drop_replication_slot('{slot}')")
    pump.offset = None
    create = f"SELECT lsn FROM pg_create_logical_replication_slot('{slot}', 'pgoutput')"
    created: list[object] = []
    between_look_and_creation(pump, monkeypatch, lambda: created.append(pump.database.execute(create)[0][0]))
    with pytest.raises(RetryableError, match="RPL-3104"):
        pump.prepare()
    with pytest.raises(NeedsUserError, match="RPL-3214"):
        pump.prepare()
    assert created == [row[0] for row in pump.database.execute(CONFIRMED)]


def test_a_superseded_first_start_drops_no_slot(pump: Pump, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(key: str, value: bytes) -> None:
        raise FencedError("a newer run took over", code="RPL-8001")

    before = pump.database.execute(CONFIRMED)
    pump.offset = None
    monkeypatch.setattr(pump.context, "put_state", refuse)
    with pytest.raises(FencedError):
        pump.prepare()
    assert pump.database.execute(CONFIRMED) == before


def test_a_slot_given_by_the_user_is_used_from_its_position(pump: Pump) -> None:
    db = pump.database
    db.execute("SELECT pg_create_logical_replication_slot('given', 'pgoutput')")
    db.execute("INSERT INTO t VALUES (1)")
    given = Pump(db, "t", slot="given", publication=publication_of(pump))
    given.prepare()
    assert ids(given) == [1]
