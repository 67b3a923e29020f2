"""Another generation begins from nothing, is above every former writer, and is begun by one file."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.control.reset import reset
from replicator_runtime.engine.run_state import open_run
from replicator_sdk.errors import FencedError, HistoryLostError, NeedsUserError
from replicator_state import ReplicatorDirectory
from tests.follows import follows
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.stream.test_paused_tables import alone, change_more, files, three_runs
from tests.runtime.engine.test_run import Host, Shop, fill, shop

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["shop"]


def begin_again(shop: Shop) -> int:
    return reset(build_pipeline(shop.document, host=Host()))  # type: ignore[arg-type]


def directory(shop: Shop, generation: int | None = None) -> ReplicatorDirectory:
    return ReplicatorDirectory(shop.document["offsetBasePath"], "default", "shop", generation=generation)


def readers(shop: Shop) -> Sequence[str]:
    with sqlite3.connect(shop.path) as database:
        found = [name for (name,) in database.execute("SELECT name FROM _replicator_readers")]
    database.close()
    return found


def epochs() -> set[int]:
    """Of the last commits of all tables."""
    return {kept.progress.epoch for kept in in_memory_target.STORAGE.tables.values() if kept.progress is not None}


@follows("RPL-3506")
def test_after_a_lost_log_everything_is_copied_again_and_goes_on(shop: Shop) -> None:
    fill(shop)
    for _ in range(3):
        shop.run()
    before = epochs()
    shop.sql("DELETE FROM customers WHERE id < 10", "INSERT INTO notes VALUES ('in the gap')")
    shop.sql(
        "UPDATE _replicator_facts SET value = (SELECT max(id) FROM _replicator_changes) WHERE name = 'pruned'",
        "DELETE FROM _replicator_changes WHERE id < (SELECT max(id) FROM _replicator_changes)",
    )
    with pytest.raises(HistoryLostError, match=r"RPL-3506.*replicator reset"):
        shop.run()
    assert begin_again(shop) == 2
    for number in range(3):
        shop.sql(f"INSERT INTO notes VALUES ('{number}')", f"ALTER TABLE customers ADD COLUMN c{number} TEXT")
        shop.run()
        shop.assert_equal()
        assert min(epochs()) > max(before)
    assert readers(shop) == ["default/shop/2"]


def test_a_former_run_that_was_paused_writes_nothing_any_more(shop: Shop) -> None:
    fill(shop)
    shop.run()
    lease = directory(shop).acquire("paused")
    lease.release()  # it does not know that another one has it
    begin_again(shop)
    with pytest.raises(FencedError, match="RPL-7131"):
        directory(shop, 1).offsets(lease).latest()
    shop.run()
    assert min(epochs()) > lease.epoch
    shop.assert_equal()


def test_a_run_that_starts_meanwhile_takes_the_new_generation(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has chosen the former one already, and gets its lease afterwards."""
    fill(shop)
    shop.run()
    found = open_run._directory
    late: list[int] = []

    def chosen(pipeline: object) -> ReplicatorDirectory:
        directory: ReplicatorDirectory = found(pipeline)  # type: ignore[arg-type]
        if not late and threading.current_thread() is not threading.main_thread():
            assert directory.generation == 1
            late.append(1)
            begin_again(shop)
        return directory

    monkeypatch.setattr(open_run, "_directory", chosen)
    thread = threading.Thread(target=shop.run)
    thread.start()
    thread.join()
    status = directory(shop, 2).states().read_status()
    assert status is not None
    assert status["phase"] == "done"
    shop.assert_equal()


def test_twice_is_as_good_as_once(shop: Shop) -> None:
    fill(shop)
    shop.run()
    assert [begin_again(shop), begin_again(shop)] == [2, 3]
    shop.run()
    shop.assert_equal()


@follows("RPL-7140")
def test_a_copy_of_the_source_takes_its_place(shop: Shop, tmp_path: Path) -> None:
    """As the hint of a foreign source says: one that was restored under another identity."""
    fill(shop)
    shop.run()
    with sqlite3.connect(shop.path) as old, sqlite3.connect(tmp_path / "restored.db") as new:
        old.backup(new)
        new.execute("UPDATE _replicator_facts SET value = 'another' WHERE name = 'identity'")
        new.execute("DELETE FROM customers WHERE id < 5")
    old.close()
    new.close()
    shop.path = tmp_path / "restored.db"
    shop.document["stages"][0]["plugin"]["properties"]["path"] = str(shop.path)
    with pytest.raises(HistoryLostError, match=r"RPL-7140.*replicator reset PIPELINE"):
        shop.run()
    begin_again(shop)
    for number in range(3):
        shop.sql(f"INSERT INTO notes VALUES ('{number}')", f"ALTER TABLE customers ADD COLUMN d{number} TEXT")
        shop.run()
        shop.assert_equal()


@follows("RPL-7110", "RPL-7120")
@pytest.mark.parametrize(("files", "code"), [("offset.*", "RPL-7110"), ("*engine-tables*", "RPL-7120")])
def test_after_a_damaged_state_everything_is_copied_again(shop: Shop, files: str, code: str) -> None:
    fill(shop)
    shop.run()
    found = list(Path(shop.document["offsetBasePath"], "default", "shop", "1").glob(files))
    assert found
    for file in found:
        file.chmod(0o600)
        file.write_bytes(b"damaged")
    with pytest.raises(NeedsUserError, match=f"{code}.*replicator reset PIPELINE"):
        shop.run()
    begin_again(shop)
    for number in range(3):
        shop.sql(f"INSERT INTO notes VALUES ('{number}')", f"ALTER TABLE customers ADD COLUMN e{number} TEXT")
        shop.run()
        shop.assert_equal()


def test_the_next_run_deletes_the_rows_that_the_former_generation_kept_and_no_others(shop: Shop) -> None:
    fill(shop)
    shop.run()
    alone(shop, "pause", "notes")
    change_more(shop, 1)
    shop.run()
    former = Path(directory(shop).place)
    (former / "dead-letters").mkdir()
    (former / "dead-letters" / "rows").write_bytes(b"rows")
    assert files(shop)
    begin_again(shop)
    kept = {path for path in former.iterdir() if path.is_file()}
    shop.run()
    assert set(former.iterdir()) == kept
    alone(shop, "pause", "notes")
    change_more(shop, 2)
    shop.run()
    shop.run()
    assert [path.parents[1].name for path in files(shop)] == ["2"]
    alone(shop, "resume", "notes")
    three_runs(shop)
