"""What cannot be gone back to is refused with a code and a next step, and nothing is changed."""

from __future__ import annotations

import itertools
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.maintenance.maintenance_run import Wanted as Maintenance
from replicator_runtime.engine.maintenance.maintenance_run import run_maintenance
from replicator_runtime.engine.rewind.choice import Choice, Wanted, choose
from replicator_runtime.engine.rewind.plan import _begins_after
from replicator_runtime.engine.rewind.rewind import rewind
from replicator_runtime.engine.run_state.open_run import open_run
from replicator_runtime.engine.run_state.plugin_contexts import source_key
from replicator_runtime.engine.worker import run
from replicator_runtime.stored_forms import REWIND
from replicator_sdk import EarlierVersion, Position, TableProgress
from replicator_sdk.errors import HistoryLostError, NeedsUserError
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_source_mysql import MySqlOffset
from replicator_source_mysql.ddl.history.schema_history import SchemaHistory
from replicator_source_mysql.streaming.schema_tracker import HISTORY_KEY
from replicator_source_postgres import PostgresSource
from replicator_state import ReplicatorDirectory, SavedOffset
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.next_steps.test_servers import ServerShop, mariadb
from tests.runtime.engine.test_run import Host, Shop, change, fill, shop

if TYPE_CHECKING:
    from tests.services.postgres.server import PostgresDatabase

__all__ = ["mariadb", "shop"]


def directory(shop: Shop) -> ReplicatorDirectory:
    return ReplicatorDirectory(shop.document["offsetBasePath"], "default", "shop")


def used(shop: Shop) -> list[str]:
    """Three runs, with the changelog kept; the names of the offsets, newest first."""
    shop.document["stages"][0]["plugin"]["properties"]["keepChangesHours"] = 1
    fill(shop)
    for _ in range(3):
        shop.run()
        change(shop)
    return names(shop)


def names(shop: Shop) -> list[str]:
    return [entry.name for entry in directory(shop).offsets().history()]


def go_back(shop: Shop, wanted: Wanted | None) -> None:
    rewind(build_pipeline(shop.document, host=Host()), wanted, lambda plan: None)  # type: ignore[arg-type]


def assert_refused(shop: Shop, wanted: Wanted | None, match: str) -> None:
    """Refused, and the offset and every table are as they were."""
    latest = directory(shop).offsets().latest()
    assert latest is not None
    commits = {table: kept.commits for table, kept in in_memory_target.STORAGE.tables.items()}
    with pytest.raises((NeedsUserError, HistoryLostError), match=match):
        go_back(shop, wanted)
    now = directory(shop).offsets().latest()
    assert now is not None
    assert now.fields == latest.fields
    assert {table: kept.commits for table, kept in in_memory_target.STORAGE.tables.items()} == commits
    assert not directory(shop).states().scoped("runtime").get(REWIND)
    shop.run()
    shop.assert_equal()


def test_an_offset_that_is_not_kept(shop: Shop) -> None:
    used(shop)
    for wanted, code in (
        (Wanted("offset.00000000000000000001"), r"RPL-1270.*replicator offsets list"),
        (Wanted("no such"), "RPL-1270"),
        (Wanted(time=datetime(2001, 1, 1, tzinfo=UTC)), "RPL-1270.*2001-01-01"),
        (None, "RPL-1273.*--offset"),
    ):
        assert_refused(shop, wanted, code)


def test_a_target_without_earlier_versions(shop: Shop) -> None:
    assert_refused(shop, Wanted(used(shop)[2]), r"RPL-1274.*replicator table resync")


def test_a_log_that_was_purged(shop: Shop) -> None:
    found = used(shop)
    shop.sql("UPDATE _replicator_facts SET value = 30 WHERE name = 'pruned'")
    assert_refused(shop, Wanted(found[-1]), r"RPL-1275.*RPL-3506.*choose a later offset")


def test_a_schema_history_that_begins_after_the_offset(mariadb: ServerShop) -> None:
    """As a `heal` leaves it; the log itself is there."""
    mariadb.run()
    mariadb.database.execute("UPDATE customers SET name = 'later'")
    mariadb.run()
    newest, *_, oldest = [e.name for e in ReplicatorDirectory(mariadb.state, "default", "shop").offsets().history()]
    with open_run(mariadb.pipeline()) as opened:
        opened.load_offset()
        stored = opened.store.get(source_key(HISTORY_KEY))
        assert stored is not None
        assert isinstance(opened.saved_offset, MySqlOffset)
        history = SchemaHistory.load(stored)
        history.prune(opened.saved_offset)
        opened.store.put(source_key(HISTORY_KEY), history.dump())
    with pytest.raises(HistoryLostError, match=r"RPL-1286.*RPL-3753.*replicator offsets list"):
        rewind(mariadb.pipeline(), Wanted(oldest), lambda plan: None)
    with pytest.raises(NeedsUserError, match="RPL-1274"):  # there the history begins, and only the target says no
        rewind(mariadb.pipeline(), Wanted(newest), lambda plan: None)
    mariadb.three_runs()


def test_an_unreadable_offset(shop: Shop) -> None:
    name = used(shop)[2]
    [file] = shop.path.parent.glob(f"state/default/shop/*/{name}")
    file.write_bytes(b"damaged")
    assert_refused(shop, Wanted(name), "RPL-7110")


def test_an_offset_of_a_superseded_run(shop: Shop) -> None:
    """It was written late, after the file of a newer run."""
    used(shop)
    directory(shop).offsets().save(SavedOffset(0, {"change": (5).to_bytes(8, "big")}, datetime.now(UTC)))  # of epoch 0
    name = names(shop)[0]
    with pytest.raises(NeedsUserError, match="RPL-1271"):
        go_back(shop, Wanted(name))


def test_while_a_run_goes_on(shop: Shop) -> None:
    found = used(shop)
    pipeline = build_pipeline(shop.document, host=Host())  # type: ignore[arg-type]
    with open_run(pipeline), pytest.raises(NeedsUserError, match="RPL-7130"):
        go_back(shop, Wanted(found[2]))


def test_a_pipeline_that_never_ran(shop: Shop) -> None:
    with pytest.raises(NeedsUserError, match="RPL-1231"):
        go_back(shop, Wanted("1"))
    assert not directory(shop).generations()


def test_maintenance_while_a_rewind_is_not_finished(shop: Shop) -> None:
    used(shop)
    pipeline = build_pipeline(shop.document, host=Host())  # type: ignore[arg-type]
    with open_run(pipeline) as opened:
        opened.store.put(REWIND, b'{"version": 1}')
    with pytest.raises(NeedsUserError, match=r"RPL-1278.*replicator rewind"):
        run_maintenance(pipeline, Maintenance())


def test_an_offset_is_found_by_what_the_list_prints_and_by_time(shop: Shop) -> None:
    used(shop)
    entries = directory(shop).offsets().history()
    with open_run(build_pipeline(shop.document, host=Host())) as opened:  # type: ignore[arg-type]
        opened.load_offset()
        for entry in entries:
            assert entry.offset is not None
            assert choose(opened, Wanted(entry.name)).name == entry.name
            assert choose(opened, Wanted(entry.name.removeprefix("offset."))).name == entry.name
            assert choose(opened, Wanted(time=entry.commit_time)).name == entry.name
            text = str(opened.read_offset(entry.offset.fields))
            assert str(choose(opened, Wanted(text)).offset) == text
        just_before = entries[0].commit_time - timedelta(microseconds=1)
        assert choose(opened, Wanted(time=just_before)).name == entries[1].name
        with pytest.raises(NeedsUserError, match="RPL-1270"):
            choose(opened, Wanted(time=entries[-1].commit_time - timedelta(microseconds=1)))


@pytest.mark.parametrize(
    ("batch", "begins_after"),
    [
        ("", True),  # a change of structure
        ("1-5-101-120", True),
        ("1-5-100-120", False),
        ("1-5-90-120", False),
        ("1-6-101-120", True),
        ("1-6-90-120", False),  # a later run gave the target a lane, with what the offset had passed
        ("1-4-101-120", False),  # the numbers of two runs are not compared
        ("2-6-101-120", False),
    ],
)
def test_a_commit_that_may_hold_changes_of_before_the_offset_is_known(
    shop: Shop, batch: str, begins_after: bool
) -> None:
    saved = SavedOffset(100, {}, datetime.now(UTC), epoch=5)
    following = TableProgress(1, 9, Position(MemoryOffset(12)), 120, batch)
    found = EarlierVersion("version 1", TableProgress(1, 1, Position(MemoryOffset(7))), following)
    with open_run(build_pipeline(shop.document, host=Host())) as opened:  # type: ignore[arg-type]
        assert _begins_after(opened, found, Choice(saved, MemoryOffset(10), 5)) == begins_after


class PostgresHost(Host):
    """Postgres and the target in this process."""

    def source(self, name: str) -> type[PostgresSource]:  # type: ignore[override]
        return PostgresSource


def test_postgres_has_given_up_the_log_that_was_acknowledged(shop: Shop, postgres_database: PostgresDatabase) -> None:
    """Its slot does not go back before what was confirmed; the next run goes on as if nothing had been asked."""
    properties: dict[str, Any] = {
        "host": postgres_database.host, "port": postgres_database.port, "database": postgres_database.name,
        "user": postgres_database.user, "password": postgres_database.password, "sslMode": "disable",
    }  # fmt: skip
    shop.document["stages"][0]["plugin"] = {"name": "postgres", "type": "cdcSource", "properties": properties}
    postgres_database.execute("CREATE TABLE customers (id int PRIMARY KEY, name text)")
    pipeline = build_pipeline(shop.document, host=PostgresHost())  # type: ignore[arg-type]
    run(pipeline, until_current=True)
    [(created,)] = postgres_database.execute("SELECT confirmed_flush_lsn FROM pg_replication_slots")
    stop, number = threading.Event(), itertools.count()
    thread = threading.Thread(target=lambda: run(pipeline, stop=stop))
    thread.start()
    confirmed = created
    until = time.monotonic() + 60
    while confirmed == created and time.monotonic() < until:
        postgres_database.execute(f"INSERT INTO customers VALUES ({next(number)}, 'n')")
        time.sleep(0.2)
        [(confirmed,)] = postgres_database.execute("SELECT confirmed_flush_lsn FROM pg_replication_slots")
    stop.set()
    thread.join()
    assert confirmed != created
    with pytest.raises(HistoryLostError, match=r"RPL-1275.*RPL-3204.*choose a later offset"):
        rewind(pipeline, Wanted(names(shop)[-1]), lambda plan: None)
    postgres_database.execute(f"INSERT INTO customers VALUES ({next(number)}, 'n')")
    run(pipeline, until_current=True)
    assert len(in_memory_target.STORAGE.rows("customers")) == next(number)
