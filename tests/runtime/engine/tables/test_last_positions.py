"""An older copy of a target's table that is put back is noticed; nothing else is taken for one."""

from __future__ import annotations

import copy
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from replicator_runtime.engine.run_state.progress import Progress
from replicator_runtime.engine.tables.last_positions import LastPositions
from replicator_sdk import Position, TableId
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.testing.histories.values import difference
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_sdk.testing.in_memory.target import MemoryStore, MemoryTarget
from replicator_source_sqlite.plugin import SqliteSource
from replicator_state import ReplicatorDirectory
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.partitioned_shop import PartitionedShop, run_pipeline
from tests.runtime.engine.preparation.test_selection_edits import loads
from tests.runtime.engine.test_run import Shop, _wait, change, fill

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TABLE = TableId("d", "t", "s")


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    in_memory_target.STORAGE = in_memory_target.TargetStorage()
    return Shop(tmp_path)


def _copy_of(table: str) -> Callable[[], None]:
    """Copies the target's table; what is returned puts the copy back."""
    [name] = [n for n in in_memory_target.STORAGE.tables if n.table == table]
    saved = copy.deepcopy(in_memory_target.STORAGE.tables[name])

    def put_back() -> None:
        in_memory_target.STORAGE.tables[name] = copy.deepcopy(saved)

    return put_back


def _change(shop: Shop, number: int) -> None:
    shop.sql(
        f"INSERT INTO customers (id, name) VALUES ({5000 + number}, 'n')",
        f"UPDATE customers SET name = 'later {number}' WHERE id < 10",
        f"INSERT INTO notes (text) VALUES ('later {number}')",
    )


def _runs(shop: Shop) -> list[str]:
    """A run; the tables that were copied again in it, with the code that says why."""
    with structlog.testing.capture_logs() as said:
        shop.run()
    shop.assert_equal()
    return [f"{e['table']} {e['code']}" for e in said if "copied again" in e["event"]]


def test_an_older_copy_put_back_is_copied_again_and_said(shop: Shop) -> None:
    fill(shop)
    shop.run()
    _change(shop, 0)
    shop.run()
    put_back = _copy_of("customers")
    for number in (1, 2):
        _change(shop, number)
        assert _runs(shop) == []
    put_back()
    assert _runs(shop) == ["main.customers RPL-4110"]
    for life in range(3):
        _change(shop, 10 + life)
        shop.sql(f"ALTER TABLE customers ADD COLUMN extra{life} TEXT")
        assert _runs(shop) == []


def test_a_copy_of_the_first_snapshot_is_older_too(shop: Shop) -> None:
    """Nothing but the first run's changes is missing in it."""
    fill(shop)
    stop, progress = threading.Event(), Progress()
    thread = threading.Thread(target=lambda: shop.run(until_current=False, stop=stop, progress=progress))
    thread.start()
    try:
        _wait(lambda: progress.snapshot().phase == "streaming" and len(in_memory_target.STORAGE.tables) == 2)
        put_back = _copy_of("customers")
        rows = progress.applied_rows
        _change(shop, 0)
        _wait(lambda: progress.applied_rows >= rows + 12)
    finally:
        stop.set()
        thread.join(120)
    put_back()
    assert _runs(shop) == ["main.customers RPL-4110"]


def _forget_newest_offsets(shop: Shop, keep: int) -> None:
    folder = shop.path.parent / "state" / "default" / "shop" / "1"
    for file in sorted(folder.glob("offset.*"))[keep:]:
        file.unlink()


def test_a_rewound_offset_alone_is_replayed(shop: Shop) -> None:
    fill(shop)
    shop.run()
    folder = shop.path.parent / "state" / "default" / "shop" / "1"
    kept = len(list(folder.glob("offset.*")))
    for number in range(2):
        _change(shop, number)
        shop.run()
    _forget_newest_offsets(shop, kept)
    for number in range(2, 5):
        assert _runs(shop) == []
        _change(shop, number)


def test_an_older_copy_beside_a_rewound_offset_is_replayed_and_forgotten(shop: Shop) -> None:
    """The replay brings what it lacks; where it ends, cut into other batches, is no older copy either."""
    fill(shop)
    shop.run()
    put_back = _copy_of("customers")
    folder = shop.path.parent / "state" / "default" / "shop" / "1"
    kept = len(list(folder.glob("offset.*")))
    for number in range(2):
        _change(shop, number)
        shop.run()
    _forget_newest_offsets(shop, kept)
    put_back()
    for number in range(2, 5):
        assert _runs(shop) == []
        shop.sql(f"INSERT INTO notes (text) VALUES ('only {number}')")


def test_positions_never_saved_after_a_commit_accuse_no_table(
    shop: Shop,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As after a kill between a table's commit and the note of it."""
    fill(shop)
    shop.run()
    with monkeypatch.context() as patch:
        patch.setattr(LastPositions, "save", lambda self: None)
        change(shop)
        shop.run()
    for number in range(3):
        assert _runs(shop) == []
        _change(shop, number)


def test_a_quiet_table_is_no_older_copy(shop: Shop) -> None:
    fill(shop)
    shop.run()
    change(shop)
    for number in range(4):
        assert _runs(shop) == []
        shop.sql(f"INSERT INTO notes (text) VALUES ('only {number}')")


def test_without_snapshots_an_older_copy_stops_its_table_alone(
    shop: Shop,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SqliteSource, "create_snapshot_reader", lambda *_: None)
    shop.run()
    fill(shop)
    shop.run()
    put_back = _copy_of("customers")
    _change(shop, 0)
    shop.run()
    newest = _copy_of("customers")
    put_back()
    for number in (1, 2):
        _change(shop, number)
        with pytest.raises(NeedsUserError, match="RPL-4111"):
            shop.run()
        shop.assert_equal("notes")
    newest()
    shop.run()
    shop.assert_equal()


def test_of_a_log_in_slices_an_older_copy_stops_its_table_alone(tmp_path: Path) -> None:
    partitioned = PartitionedShop(tmp_path, seed=5)
    document = partitioned.document("memory", {"store": str(tmp_path)})
    store = MemoryStore.of(str(tmp_path))
    customers, *_ = (schema.table for schema in partitioned.schemas)

    def differences() -> set[TableId]:
        return {s.table for s in partitioned.schemas if difference(s, partitioned.rows(s.table), store.rows(s.table))}

    def grab() -> tuple[Any, Any]:
        return copy.deepcopy(store.reference.tables[customers]), store.progress[customers]

    def put_back(kept: tuple[Any, Any]) -> None:
        store.reference.tables[customers], store.progress[customers] = copy.deepcopy(kept[0]), kept[1]

    try:
        for _ in range(3):
            partitioned.trade(30)
            run_pipeline(document, MemoryTarget)
            assert differences() == set()
        older = grab()
        partitioned.trade(30)
        run_pipeline(document, MemoryTarget)
        newest = grab()
        put_back(older)
        for _ in range(2):
            partitioned.trade(30)
            with pytest.raises(NeedsUserError, match="RPL-4111"):
                run_pipeline(document, MemoryTarget)
            assert differences() == {customers}
        put_back(newest)
        for _ in range(3):
            partitioned.trade(30)
            run_pipeline(document, MemoryTarget)
            assert differences() == set()
    finally:
        MemoryStore.forget(str(tmp_path))


def test_of_a_log_in_slices_a_table_that_another_program_replaced_stops_alone(tmp_path: Path) -> None:
    """Its position is that of before, stored apart from the rows."""
    partitioned = PartitionedShop(tmp_path, seed=6)
    document = partitioned.document("memory", {"store": str(tmp_path)})
    store = MemoryStore.of(str(tmp_path))
    customers, *others = (schema.table for schema in partitioned.schemas)
    try:
        partitioned.trade(30)
        run_pipeline(document, MemoryTarget)
        store.progress[customers] = replace(store.progress[customers], replaced=True)
        for _ in range(2):
            partitioned.trade(30)
            with pytest.raises(NeedsUserError, match="RPL-4116"):
                run_pipeline(document, MemoryTarget)
            for schema in partitioned.schemas:
                differs = difference(schema, partitioned.rows(schema.table), store.rows(schema.table))
                assert bool(differs) == (schema.table not in others)
    finally:
        MemoryStore.forget(str(tmp_path))


class _Store:
    """Counts writes."""

    def __init__(self, tmp_path: Path) -> None:
        self._true = ReplicatorDirectory(str(tmp_path), "n", "shop").states()
        self.writes = 0

    def get(self, key: str) -> bytes | None:
        return self._true.get(key)

    def put(self, key: str, value: bytes) -> None:
        self.writes += 1
        self._true.put(key, value)


def test_positions_are_written_at_most_every_ten_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("replicator_runtime.engine.tables.last_positions.time.monotonic", lambda: now[0])
    store = _Store(tmp_path)
    positions = LastPositions(store, MemoryOffset.from_fields)  # type: ignore[arg-type]
    for number in range(600):  # a minute, ten commits a second
        positions.reached(TABLE, "c", Position(MemoryOffset(number)))
        now[0] += 0.1
        positions.save_when_due()
    assert store.writes in (5, 6)
    positions.save()
    positions.save()
    later = LastPositions(store, MemoryOffset.from_fields)  # type: ignore[arg-type]
    assert later.is_older_copy(TABLE, "c", Position(MemoryOffset(598)), MemoryOffset(599))
    assert not later.is_older_copy(TABLE, "another", Position(MemoryOffset(598)), MemoryOffset(599))


def test_a_rewind_to_an_older_offset_is_followed_without_a_copy(shop: Shop) -> None:
    """Newer offset files are deleted; the targets' tables are ahead, over rows and changes of structure."""
    fill(shop)
    shop.run()
    for i in range(3):
        shop.sql(
            f"INSERT INTO customers (id, name) VALUES ({300 + i}, 'x')", f"ALTER TABLE customers ADD COLUMN c{i} TEXT"
        )
        shop.run()
    for file in sorted(shop.path.parent.glob("state/default/shop/*/offset.*"))[2:]:
        file.unlink()
    copied = loads("customers")
    for i in (5, 6, 7):
        shop.run()
        shop.assert_equal()
        shop.sql(
            f"INSERT INTO customers (id, name) VALUES ({300 + i}, 'x')", f"ALTER TABLE customers ADD COLUMN c{i} TEXT"
        )
    assert not copied
