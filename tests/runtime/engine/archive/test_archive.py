"""The archive of a pipeline gives the rows that source and target have, and says where it cannot."""

from __future__ import annotations

import errno
import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.control.delete import expected, survey
from replicator_runtime.engine.planning.planner import stored_plan
from replicator_sdk.errors import DataError, NeedsUserError, ReplicatorError, RetryableError
from replicator_state import ArchiveFolder
from replicator_state.storage.local_folder import LocalFolder
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.archive.rebuilt import entries_of, listed, rebuilt
from tests.runtime.engine.requests import requests
from tests.runtime.engine.stream.test_paused_tables import alone
from tests.runtime.engine.stream.test_pending_acks import DeferredShop
from tests.runtime.engine.test_run import Host, Shop, shop

if TYPE_CHECKING:
    from replicator_sdk import TableId

__all__ = ["shop"]
TABLES = ("customers", "notes")


def archived(shop: Shop, **more: Any) -> Path:
    path = shop.path.parent / "archive"
    shop.document["archive"] = {"path": str(path), **more}
    return path


def assert_archived(shop: Shop, archive: Path) -> None:
    shop.assert_equal()
    tables = rebuilt(archive)
    for table in TABLES:
        rows = [tuple(row[name] for name in tables[table].names) for row in shop.source_rows(table)]
        assert sorted(tables[table].bag().elements(), key=repr) == sorted(rows, key=repr)
    assert {str(path.relative_to(archive)) for path in archive.rglob("*.parquet")} == listed(archive)


def change(shop: Shop, chance: random.Random) -> None:
    """A few transactions, among them key changes, equal rows, NULLs, all rows removed, and new columns."""
    key, free = chance.randint(1, 20), chance.randint(100, 10**9)
    steps = [
        (f"INSERT OR IGNORE INTO customers (id, name) VALUES ({free}, NULL)",),
        (f"UPDATE customers SET name = 'n{free}' WHERE id <= {key}",),
        (f"UPDATE OR IGNORE customers SET id = {free} WHERE id = {key}",),
        (f"DELETE FROM customers WHERE id = {key}", f"INSERT INTO customers (id, name) VALUES ({key}, 'again')"),
        ("INSERT INTO notes (text) VALUES ('a'), ('a'), (NULL)",),
        ("DELETE FROM notes WHERE rowid = (SELECT min(rowid) FROM notes)",),
        ("DELETE FROM notes",),
        (f"ALTER TABLE customers ADD COLUMN c{free} TEXT DEFAULT 'd'",),
    ]
    for statements in chance.sample(steps, k=6):
        shop.sql(*statements)


@pytest.mark.parametrize("seed", range(3))
def test_random_histories_with_faults_of_the_target_are_archived_whole_and_once(shop: Shop, seed: int) -> None:
    chance, left = random.Random(seed), 0
    archive = archived(shop)
    shop.document["batch"] = {"maxIntervalSeconds": 0.01, "maxRows": 3}
    shop.sql(*(f"INSERT INTO customers VALUES ({n}, 'c{n}')" for n in range(1, 20)), "INSERT INTO notes VALUES ('a')")

    def fault(at: str, where: TableId) -> None:
        nonlocal left
        if left and at in {"before", "after", "ddl", "ddl applied"} and chance.random() < 0.5:
            left -= 1
            raise RetryableError("the table is locked", code="RPL-4001")

    shop.run()
    assert_archived(shop, archive)
    in_memory_target.STORAGE.fault = fault
    for number in range(5):
        change(shop, chance)
        left = chance.randrange(4)
        if number == 2:
            alone(shop, "pause", "customers")
            change(shop, chance)
            shop.run()
            change(shop, chance)
            alone(shop, "resume", "customers")
        shop.run()
        left = 0
        assert_archived(shop, archive)


def test_a_target_that_commits_in_its_own_time_is_archived_whole_and_once(tmp_path: Path) -> None:
    in_memory_target.STORAGE = in_memory_target.TargetStorage()
    shop, chance = DeferredShop(tmp_path), random.Random(1)
    archive = archived(shop, flushSeconds=0)
    shop.document["batch"] = {"maxIntervalSeconds": 0.01, "maxRows": 3}
    shop.sql(*(f"INSERT INTO customers VALUES ({n}, 'c{n}')" for n in range(1, 20)), "INSERT INTO notes VALUES ('a')")
    left = 0

    def fault(at: str, where: TableId) -> None:
        nonlocal left
        if left and at in {"take", "before", "after"} and chance.random() < 0.5:
            left -= 1
            raise RetryableError("the table is locked", code="RPL-4001")

    in_memory_target.STORAGE.fault = fault
    for _ in range(3):
        shop.run()
        left = 0
        assert_archived(shop, archive)
        change(shop, chance)
        left = chance.randrange(4)


def test_changes_that_the_target_refuses_are_archived_once_it_has_taken_them(shop: Shop) -> None:
    archive = archived(shop)
    shop.run()
    shop.sql("INSERT INTO customers VALUES (1, 'one')", "INSERT INTO notes VALUES ('a')")

    def fault(at: str, where: TableId) -> None:
        if at == "before" and where.table == "customers":
            raise DataError("a value does not fit", code="RPL-5402", table=str(where))

    in_memory_target.STORAGE.fault = fault
    with pytest.raises(DataError):
        shop.run()
    assert rebuilt(archive)["customers"].changes == 0
    in_memory_target.STORAGE.fault = lambda *_: None
    shop.sql("UPDATE customers SET name = 'another'")
    shop.run()
    assert_archived(shop, archive)


def test_batches_of_a_run_are_put_together(shop: Shop) -> None:
    archive = archived(shop)
    shop.run()
    before = listed(archive)
    shop.document["batch"] = {"maxIntervalSeconds": 0, "maxRows": 2}
    shop.sql(*(f"INSERT INTO customers VALUES ({n}, 'c')" for n in range(200)))
    shop.run()
    assert len(listed(archive) - before) == 1
    assert rebuilt(archive)["customers"].changes == 200


def test_a_table_that_was_copied_before_the_archive_was_set_has_a_break_until_it_is_copied_again(shop: Shop) -> None:
    shop.sql("INSERT INTO customers VALUES (1, 'one')")
    shop.run()
    archive = archived(shop)
    plan = stored_plan(build_pipeline(shop.document, host=Host()), _directory(shop))  # type: ignore[arg-type]
    assert [(step.subject, step.needs_approval) for step in plan.steps] == [("archive.path", False)]
    shop.sql("INSERT INTO customers VALUES (2, 'two')", "INSERT INTO notes VALUES ('a')")
    shop.run()
    assert rebuilt(archive)["customers"].rows is None
    requests(shop).submit("table.resync", {"tables": list(TABLES), "inPlace": True})
    shop.sql("INSERT INTO customers VALUES (3, 'three')")
    shop.run()
    assert_archived(shop, archive)


def test_an_archive_that_was_taken_out_for_a_while_has_a_break(shop: Shop) -> None:
    archive = archived(shop)
    shop.run()
    kept = shop.document.pop("archive")
    shop.sql("INSERT INTO customers VALUES (1, 'one')")
    shop.run()
    shop.document["archive"] = kept
    shop.sql("INSERT INTO customers VALUES (2, 'two')", "INSERT INTO notes VALUES ('a')")
    shop.run()
    assert rebuilt(archive)["customers"].rows is None
    assert rebuilt(archive)["notes"].bag().total() == 1  # nothing of it was passed


def test_a_full_archive_ends_the_run_and_a_later_run_has_every_change(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = archived(shop)
    shop.run()
    shop.sql("INSERT INTO customers VALUES (1, 'one')")
    shop.document["retries"] = {"maxDurationSeconds": 0.2, "delaySeconds": 0.1}

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(LocalFolder, "replace", _but_for(archive, LocalFolder.replace, full))
        with pytest.raises(NeedsUserError) as raised:
            shop.run()
    assert raised.value.code == "RPL-7103"
    shop.sql("INSERT INTO customers VALUES (2, 'two')")
    shop.run()
    assert_archived(shop, archive)


def _but_for(archive: Path, true: Any, fault: Any) -> Any:
    def either(folder: LocalFolder, *arguments: Any) -> Any:
        return (fault if folder.path.is_relative_to(archive) else true)(folder, *arguments)

    return either


def test_the_archive_of_another_pipeline_is_refused(shop: Shop) -> None:
    archived(shop)
    shop.run()
    shop.document |= {"name": "other", "offsetBasePath": str(shop.path.parent / "other")}
    with pytest.raises(NeedsUserError, match="default/shop") as raised:
        shop.run()
    assert raised.value.code == "RPL-1251"


def test_files_older_than_keep_days_are_deleted(shop: Shop) -> None:
    archive = archived(shop, keepDays=30)
    shop.sql("INSERT INTO customers VALUES (1, 'one')")
    shop.run()
    first = listed(archive)
    for path in (archive / "_manifests").iterdir():
        content = json.loads(path.read_text())
        path.write_text(json.dumps({**content, "at": content["at"] - 31 * 86_400}))
    shop.sql("INSERT INTO customers VALUES (2, 'two')")
    shop.run()
    assert first
    assert not any((archive / name).exists() for name in first)
    assert len(listed(archive)) == 1
    assert len(list(archive.rglob("*.parquet"))) == 1


def test_what_a_kill_left_beside_the_manifests_keeps_no_old_file(shop: Shop) -> None:
    archive = archived(shop, keepDays=30)
    shop.run()
    shop.sql("INSERT INTO customers VALUES (1, 'one')")
    shop.run()
    [old] = [name for name in listed(archive) if "/copies/" not in name]
    for path in (archive / "_manifests").iterdir():
        content = json.loads(path.read_text())
        path.write_text(json.dumps({**content, "at": content["at"] - 31 * 86_400}))
    (archive / "_manifests" / ".tmp-0123456789abcdef").write_text("half of a mani")
    (archive / "_manifests" / "probe.0123456789abcdef").write_text("1")
    shop.sql("INSERT INTO notes VALUES ('a')")
    shop.run()
    assert not (archive / old).parents[1].exists()  # nor the folder of the day
    assert len(list(archive.rglob("*.parquet"))) == 1


def test_rows_of_a_copy_that_was_given_up_are_deleted(shop: Shop) -> None:
    archive = archived(shop)
    shop.sql("INSERT INTO customers VALUES (1, 'one')", "INSERT INTO notes VALUES ('a')")

    def fault(at: str, where: TableId) -> None:
        if at == "loaded" and where.table == "notes":
            raise NeedsUserError("the target is closed", code="RPL-4002")

    in_memory_target.STORAGE.fault = fault
    with pytest.raises(NeedsUserError):
        shop.run()
    assert list(archive.glob("main.notes/copies/*/*.parquet"))
    in_memory_target.STORAGE.fault = lambda *_: None
    shop.sql("DROP TABLE notes")
    shop.run()
    assert {str(path.relative_to(archive)) for path in archive.rglob("*.parquet")} == listed(archive)
    assert not [path for path in (archive / "main.notes").rglob("*") if path.is_file()]
    assert not (archive / "_copies").exists()


def test_a_superseded_run_cannot_name_files_that_its_successor_has_deleted(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = archived(shop)
    shop.run()
    shop.sql("INSERT INTO customers VALUES (1, 'one')")
    create, remove, held = ArchiveFolder.create, ArchiveFolder.remove, list[tuple[str, bytes]]()

    def pause(self: ArchiveFolder, name: str, content: bytes) -> None:
        if name.startswith("_manifests"):
            held.append((name, content))
            raise NeedsUserError("the run is superseded while it waits here", code="RPL-7104")
        create(self, name, content)

    with monkeypatch.context() as patch:
        patch.setattr(ArchiveFolder, "create", pause)
        with pytest.raises(NeedsUserError):
            shop.run()
    [(manifest, content)] = held
    assert json.loads(content)["entries"][0]["files"]

    def go_on(self: ArchiveFolder, name: str) -> None:
        remove(self, name)
        if name.endswith(".parquet") and held:
            held.clear()
            with pytest.raises(FileExistsError):
                create(self, manifest, content)

    monkeypatch.setattr(ArchiveFolder, "remove", go_on)
    shop.run()
    assert not held
    assert_archived(shop, archive)


def test_two_runs_that_write_one_manifest_are_noticed(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = archived(shop)
    shop.run()
    true, taken = ArchiveFolder.create, list[str]()

    def create(self: ArchiveFolder, name: str, content: bytes) -> None:
        if name.startswith("_manifests") and not taken:
            taken.append(name)
            true(self, name, json.dumps({**json.loads(content), "entries": [], "ends": [], "epoch": 0}).encode())
        true(self, name, content)

    shop.sql("INSERT INTO customers VALUES (1, 'one')")
    monkeypatch.setattr(ArchiveFolder, "create", create)
    shop.run()
    assert taken
    assert_archived(shop, archive)


def test_delete_names_the_archive_that_it_leaves(shop: Shop) -> None:
    archive = archived(shop)
    shop.run()
    pipeline = build_pipeline(shop.document, host=Host())  # type: ignore[arg-type]
    found = survey(pipeline, target_tables=False, keep_source=False)
    left = expected(found, target_tables=False, keep_source=False, pipeline=pipeline).left
    assert [line for line in left if str(archive) in line]


def test_a_dropped_table_ends_in_the_archive(shop: Shop) -> None:
    archive = archived(shop)
    shop.run()
    shop.sql("INSERT INTO notes VALUES ('a')")
    shop.sql("DROP TABLE notes")
    shop.run()
    assert set(rebuilt(archive)) == {"customers"}
    shop.sql("CREATE TABLE notes (text TEXT, more TEXT)", "INSERT INTO notes VALUES ('b', 'c')")
    shop.run()
    assert_archived(shop, archive)


def test_a_renamed_table_goes_on_with_all_its_changes_under_its_new_name(shop: Shop) -> None:
    archive = archived(shop)
    shop.run()
    shop.sql("INSERT INTO notes VALUES ('a'), ('b')")
    shop.sql("ALTER TABLE notes RENAME TO remarks")
    shop.sql("INSERT INTO remarks VALUES ('c')")
    shop.run()
    entries = [entry for entry in entries_of(archive) if entry["table"]["table"] in {"notes", "remarks"}]
    kinds = [(entry["table"]["table"], entry["kind"], entry.get("rows")) for entry in entries]
    assert kinds[1:3] == [("notes", "changes", 3), ("remarks", "rename", None)]
    shop.sql("INSERT INTO remarks VALUES ('d')")
    shop.run()
    assert rebuilt(archive)["remarks"].bag().total() == 4


def test_errors_of_the_archive_are_ones_with_a_code(shop: Shop) -> None:
    shop.document["archive"] = {"path": "nonsense://archive"}
    with pytest.raises(ReplicatorError) as raised:
        shop.run()
    assert raised.value.code == "RPL-7102"
    assert "archive.path" in str(raised.value)


def _directory(shop: Shop) -> Any:
    from replicator_runtime.engine.run_state.open_run import directory_of

    return directory_of(build_pipeline(shop.document, host=Host()))  # type: ignore[arg-type]
