"""A pipeline that reads the archive of another one has that one's tables, or says which it cannot have."""

from __future__ import annotations

import json
import random
import shutil
import threading
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.worker import RunResult, run
from replicator_sdk import Severity, TableId
from replicator_sdk.errors import HistoryLostError, NeedsUserError, ReplicatorError
from replicator_source_archive.plugin import ArchiveSource
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.archive.rebuilt import listed
from tests.runtime.engine.archive.test_archive import archived, change
from tests.runtime.engine.in_memory_target import InMemoryTarget, TargetStorage
from tests.runtime.engine.requests import requests
from tests.runtime.engine.test_run import Shop, shop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["shop"]
_WAIT_SECONDS = 120


class Host:
    """The archive as a source, and the target of these tests."""

    def source(self, name: str) -> type[ArchiveSource]:
        return ArchiveSource

    def target(self, name: str) -> type[InMemoryTarget]:
        return InMemoryTarget


class Replay:
    """A pipeline from a shop's archive into tables of its own."""

    def __init__(self, shop: Shop, archive: Path | str, **settings: Any) -> None:
        self.shop = shop
        self.storage = TargetStorage()
        properties = {"path": str(archive), "pollIntervalSeconds": 0.02, **settings}
        kept = {key: shop.document[key] for key in ("connections", "retries", "batch", "edits")}
        self.document: dict[str, Any] = {
            **kept,
            "name": "replay",
            "offsetBasePath": str(shop.path.parent / "replay"),
            "stages": [
                {"name": "db", "plugin": {"name": "archive", "type": "cdcSource", "properties": properties}},
                {"name": "lake", "plugin": {"name": "kept", "type": "cdcTarget"}},
            ],
        }

    @contextmanager
    def at_work(self) -> Iterator[None]:
        others, in_memory_target.STORAGE = in_memory_target.STORAGE, self.storage
        try:
            yield
        finally:
            in_memory_target.STORAGE = others

    def run(self, **more: Any) -> RunResult:
        with self.at_work():
            pipeline = build_pipeline(self.document, host=Host())  # type: ignore[arg-type]
            return run(pipeline, **{"until_current": True, **more})

    def differences(self, *tables: str) -> dict[str, Any]:
        """Table → the rows that source and copy do not share."""
        found = {}
        for table in tables or ("customers", "notes"):
            wanted = Counter(tuple(sorted(row.items())) for row in self.shop.source_rows(table))
            there = Counter(tuple(sorted(row.items())) for row in self.storage.rows(table))
            if wanted != there:
                found[table] = (wanted - there, there - wanted)
        return found


def fill(shop: Shop) -> None:
    shop.sql(*(f"INSERT INTO customers VALUES ({n}, 'c{n}')" for n in range(1, 20)), "INSERT INTO notes VALUES ('a')")


def replayed(shop: Shop) -> tuple[Path, Replay]:
    """The archive of a shop that was filled, and a replay that has all of it."""
    archive = archived(shop)
    fill(shop)
    shop.run()
    replay = Replay(shop, archive)
    replay.run()
    return archive, replay


@pytest.mark.parametrize("seed", range(3))
def test_random_histories_are_replayed(shop: Shop, seed: int) -> None:
    chance, archive = random.Random(seed), archived(shop)
    fill(shop)
    shop.run()
    if seed:
        change(shop, chance)
        shop.run()
    replay = Replay(shop, archive)
    for round_ in range(4):
        replay.run()
        assert replay.differences() == {}
        change(shop, chance)
        if round_ == 2:
            requests(shop).submit("table.resync", {"tables": ["customers", "notes"], "inPlace": True})
            change(shop, chance)
        shop.run()
    late = Replay(shop, archive)
    late.document["name"] = "late"
    for one in (replay, late):
        one.run()
        assert one.differences() == {}


def test_an_archive_that_grows_is_followed(shop: Shop) -> None:
    chance, archive = random.Random(7), archived(shop)
    fill(shop)
    shop.run()
    growing = archive.with_name("growing")
    shutil.copytree(archive, growing)
    for _ in range(3):
        change(shop, chance)
        shop.run()
    replay, stop, errors = Replay(shop, growing), threading.Event(), list[ReplicatorError]()
    replay.run()

    def follow() -> None:
        try:
            run(build_pipeline(replay.document, host=Host()), stop=stop)  # type: ignore[arg-type]
        except ReplicatorError as error:
            errors.append(error)

    with replay.at_work():
        thread = threading.Thread(target=follow)
        thread.start()
        try:
            shutil.copytree(archive, growing, dirs_exist_ok=True, ignore=shutil.ignore_patterns("_manifests"))
            for path in sorted((archive / "_manifests").iterdir()):
                shutil.copy(path, growing / "next.json")
                (growing / "next.json").rename(growing / "_manifests" / path.name)
                time.sleep(0.2)
            _until(lambda: bool(errors) or replay.differences() == {})
        finally:
            stop.set()
            thread.join()
    assert errors == []


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_table_that_the_archive_does_not_have_whole_is_refused_until_it_was_copied_again(shop: Shop) -> None:
    fill(shop)
    shop.run()
    archive = archived(shop)
    shop.sql("INSERT INTO customers VALUES (100, 'seen')", "INSERT INTO notes VALUES ('seen')")
    shop.run()
    replay = Replay(shop, archive)
    pipeline = build_pipeline(replay.document, host=Host())  # type: ignore[arg-type]
    with pipeline.source.create_table_registry() as registry, pipeline.source.create_table_assessor() as assessor:
        assert [summary.table.table for summary in registry.list_tables()] == ["customers", "notes"]
        [finding] = assessor.assess_table(registry.describe_table(TableId("main", "customers"))).findings
    assert (finding.code, finding.severity) == ("RPL-3556", Severity.ERROR)
    with pytest.raises(NeedsUserError) as raised:
        replay.run()
    assert raised.value.code == "RPL-3556"
    only = Replay(shop, archive, incomplete="changes")
    only.document["name"] = "only"
    shop.sql("UPDATE customers SET name = 'now seen' WHERE id = 3", "DELETE FROM customers WHERE id = 4")
    shop.run()
    only.run()
    assert sorted(row["id"] for row in only.storage.rows("customers")) == [3, 100]
    requests(shop).submit("table.resync", {"tables": ["customers", "notes"], "inPlace": True})
    shop.run()
    for one in (replay, only):
        one.run()
        assert one.differences() == {}


def test_a_table_stops_at_a_hole_and_is_copied_again_after_the_next_copy(shop: Shop) -> None:
    _, replay = replayed(shop)
    kept = shop.document.pop("archive")
    shop.sql("INSERT INTO customers VALUES (100, 'not archived')")
    shop.run()
    shop.document["archive"] = kept
    shop.sql("INSERT INTO customers VALUES (101, 'later')", "INSERT INTO notes VALUES ('b')")
    shop.run()
    with pytest.raises(NeedsUserError) as raised:
        replay.run()
    assert (raised.value.code, raised.value.table) == ("RPL-3556", "main.customers")
    requests(shop).submit("table.resync", {"tables": ["customers"], "inPlace": True})
    shop.sql("INSERT INTO customers VALUES (102, 'last')")
    shop.run()
    replay.run()
    assert replay.differences() == {}


def age(archive: Path) -> None:
    for path in (archive / "_manifests").iterdir():
        content = json.loads(path.read_text())
        path.write_text(json.dumps({**content, "at": content["at"] - 31 * 86_400}))


def test_pruned_hours_are_an_error_for_who_has_not_read_them(shop: Shop) -> None:
    archive = archived(shop, keepDays=30)
    fill(shop)
    shop.run()
    replay, current = Replay(shop, archive), Replay(shop, archive)
    current.document["name"] = "current"
    for one in (replay, current):
        one.run()
    shop.sql("INSERT INTO customers VALUES (100, 'old')")
    shop.run()
    current.run()
    for number in range(2):
        if number == 0:
            age(archive)
        shop.sql(f"INSERT INTO customers VALUES ({101 + number}, 'new')")
        shop.run()
    with pytest.raises(HistoryLostError) as lost:
        replay.run()
    assert lost.value.code == "RPL-3554"
    late = Replay(shop, archive)
    late.document["name"] = "late"
    with pytest.raises(NeedsUserError) as raised:
        late.run()
    assert raised.value.code == "RPL-3556"


def test_a_dropped_table_is_dropped_and_one_of_its_name_is_copied(shop: Shop) -> None:
    archive = archived(shop)
    fill(shop)
    shop.run()
    replay = Replay(shop, archive)
    replay.storage.drops = True
    replay.run()
    shop.sql("DROP TABLE notes")
    shop.run()
    replay.run()
    assert {table.table for table in replay.storage.tables} == {"customers"}
    shop.sql("CREATE TABLE notes (text TEXT, more TEXT)", "INSERT INTO notes VALUES ('b', 'c')")
    shop.run()
    replay.run()
    assert replay.differences() == {}


def test_another_archive_at_the_path_is_refused(shop: Shop) -> None:
    archive, replay = replayed(shop)
    owner = archive / "_archive.json"
    owner.write_text(owner.read_text().replace("shop", "other"))
    with pytest.raises(HistoryLostError) as raised:
        replay.run()
    assert raised.value.code == "RPL-7140"
    owner.write_text(owner.read_text().replace("other", "shop"))
    for path in (archive / "_manifests").iterdir():
        path.write_text(json.dumps({**json.loads(path.read_text()), "at": 1.0}))
    with pytest.raises(HistoryLostError) as raised:
        replay.run()
    assert raised.value.code == "RPL-3554"


def delete(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-8])


@pytest.mark.parametrize("damage", [delete, cut])
def test_a_damaged_file_stops_its_table_only(shop: Shop, damage: Callable[[Path], None]) -> None:
    """A missing one stopped the run for all tables; one that was cut was read again and again, by all."""
    archive, replay = replayed(shop)
    before = listed(archive)
    shop.sql("INSERT INTO customers VALUES (100, 'x')")
    shop.run()
    [name] = listed(archive) - before
    whole = (archive / name).read_bytes()
    damage(archive / name)
    shop.sql("INSERT INTO notes VALUES ('after the damage')")
    shop.run()
    for _ in range(2):  # the table's next copy needs that file, too
        with pytest.raises(NeedsUserError, match=name) as raised:
            replay.run()
        assert (raised.value.code, raised.value.table) == ("RPL-3555", "main.customers")
        assert replay.differences().keys() == {"customers"}
    (archive / name).write_bytes(whole)
    replay.run()
    assert replay.differences() == {}


def test_a_manifest_that_is_missing_before_others_is_named(shop: Shop) -> None:
    """A run waited for it without an error."""
    archive, replay = replayed(shop)
    for number in range(2):
        shop.sql(f"INSERT INTO customers VALUES ({100 + number}, 'x')")
        shop.run()
    newest = sorted((archive / "_manifests").iterdir())[-2]
    content = newest.read_bytes()
    newest.unlink()
    with pytest.raises(NeedsUserError, match=newest.name) as raised:
        replay.run()
    assert raised.value.code == "RPL-3555"
    newest.write_bytes(content)
    replay.run()
    assert replay.differences() == {}


def test_an_archive_on_s3_is_read_as_one_on_disk(shop: Shop, s3_bucket: str) -> None:
    archive = archived(shop)
    fill(shop)
    shop.run()
    place = f"s3://{s3_bucket}/archive"
    fsspec.filesystem("s3").put(str(archive), place, recursive=True)
    replay = Replay(shop, place)
    replay.run()
    assert replay.differences() == {}
    shop.sql("UPDATE customers SET name = 'changed'", "DELETE FROM notes")
    shop.run()
    fsspec.filesystem("s3").put(f"{archive}/", f"{place}/", recursive=True)
    replay.run()
    assert replay.differences() == {}
