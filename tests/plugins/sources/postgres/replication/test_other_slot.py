"""The log is read on by another slot only where that has all after the saved offset, and by another publication after new copies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.control.reset import reset
from replicator_runtime.engine.planning.plan import Plan
from replicator_runtime.engine.planning.planner import stored_plan
from replicator_sdk import StoredState
from replicator_sdk.errors import HistoryLostError, NeedsUserError
from replicator_source_postgres.replication.log_continuity import STATE_KEY
from replicator_state import ReplicatorDirectory
from tests.follows import follows
from tests.plugins.sources.postgres.faults import PREPARED, ids, slot_of
from tests.plugins.sources.postgres.pipeline import Host, Pipeline
from tests.plugins.sources.postgres.pump import Pump, source_of
from tests.services.postgres.server import PostgresDatabase


def name_slot(pump: Pump, slot: str | None) -> None:
    """Edit the setting."""
    pump.source = source_of(pump.database, slot=slot)


def make(db: PostgresDatabase) -> str:
    """A slot of the test's own."""
    slot = f"{db.name}_made"
    db.execute(f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")
    return slot


def test_without_slot_the_log_is_not_read_by_the_slot_of_another_state(pump: Pump) -> None:
    db, derived = pump.database, slot_of(pump)
    named = Pump(db, "t", slot=make(db))
    named.prepare()
    name_slot(named, None)
    db.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(NeedsUserError, match=rf"RPL-3214.*{derived}") as caught:
        named.prepare()
    assert f"put `slot` back to '{db.name}_made'" in caught.value.hint
    assert ids(pump) == [1]
    name_slot(named, f"{db.name}_made")
    assert ids(named) == [1]


def test_a_slot_that_lacks_changes_after_the_saved_offset_is_refused_and_a_copy_of_the_former_one_is_not(
    pump: Pump,
) -> None:
    """Also where it does not exist; what was refused is read by none of them."""
    db, derived = pump.database, slot_of(pump)
    db.execute("INSERT INTO t VALUES (1)")
    made, hint = f"{db.name}_made", ""
    for number in range(2):
        name_slot(pump, made)
        with pytest.raises(NeedsUserError, match=rf"RPL-3220.*{derived}.*{made}") as caught:
            pump.prepare()
        hint = caught.value.hint
        name_slot(pump, None)
        pump.prepare()
        if number == 0:
            make(db)
    for statement in hint.rpartition("a copy of it: ")[2].split("; "):
        db.execute(statement)
    name_slot(pump, made)
    assert ids(pump) == [1]
    db.execute("INSERT INTO t VALUES (2)")
    name_slot(pump, None)  # this state has created it, and it has everything since
    assert ids(pump) == [2]


def test_the_slot_of_a_former_generation_is_this_states(pump: Pump) -> None:
    db = pump.database
    later = Pump(db, "t", slot=make(db))
    later.context.former = [StoredState(pump.context.get_offset, pump.context.get_state)]
    later.prepare()
    db.execute("INSERT INTO t VALUES (1)")
    name_slot(later, None)
    assert ids(later) == [1]


def test_where_neither_slot_has_the_log_it_is_lost(pump: Pump) -> None:
    pump.database.execute(f"SELECT pg_drop_replication_slot('{slot_of(pump)}')")
    name_slot(pump, f"{pump.database.name}_made")
    with pytest.raises(HistoryLostError, match="RPL-3203"):
        pump.prepare()


def plan(pipeline: Pipeline) -> Plan:
    directory = ReplicatorDirectory(pipeline.document["offsetBasePath"], "default", "shop")
    return stored_plan(build_pipeline(pipeline.document, host=Host()), directory)  # type: ignore[arg-type]


@follows("RPL-3221")
def test_with_a_publication_that_was_created_later_every_table_is_copied_again(
    postgres_oldest_and_newest: PostgresDatabase, tmp_path: Path
) -> None:
    """What it did not have yet at the saved offset is not missing; a server that cannot read such a log says so."""
    db = postgres_oldest_and_newest
    db.execute(f"{PREPARED}; CREATE TABLE u (id int PRIMARY KEY, v text)")
    pipeline = Pipeline(db, tmp_path, "t", "u")
    pipeline.run()
    db.execute("INSERT INTO t VALUES (1); INSERT INTO u VALUES (1)")
    db.execute("CREATE PUBLICATION other FOR TABLE t, u")
    db.execute("INSERT INTO t VALUES (2); INSERT INTO u VALUES (2)")
    pipeline.properties["publication"] = "other"
    [step] = plan(pipeline).steps
    assert (step.subject, step.needs_approval, step.code) == ("source.publication", True, "RPL-3606")
    if db.version < 18:
        with pytest.raises(NeedsUserError, match=r"RPL-3221.*replicator reset PIPELINE"):
            pipeline.run()
        reset(build_pipeline(pipeline.document, host=Host()))  # type: ignore[arg-type]
    for number in (10, 11):
        pipeline.run()
        pipeline.assert_equal()
        db.execute(f"INSERT INTO t VALUES ({number}); DELETE FROM u WHERE id < {number}")
    pipeline.run()
    pipeline.assert_equal()


def test_a_state_that_does_not_name_its_slot_names_it_at_its_next_start_so_that_an_edit_after_that_is_compared(
    pump: Pump,
) -> None:
    """Releases before stored the publication alone."""
    db, derived = pump.database, slot_of(pump)
    stored = json.loads(pump.context.get_state(STATE_KEY) or b"")
    assert stored.pop("slot") == derived
    pump.context.put_state(STATE_KEY, json.dumps(stored).encode())
    with capture_logs() as logged:
        pump.prepare()
        pump.prepare()
    assert [line["slot"] for line in logged if line["event"] == "slot.noted"] == [derived]
    db.execute("INSERT INTO t VALUES (1)")
    name_slot(pump, make(db))
    with pytest.raises(NeedsUserError, match=rf"RPL-3220.*{derived}"):
        pump.prepare()
