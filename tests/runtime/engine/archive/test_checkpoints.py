"""A reader of an archive finds in checkpoints what the manifests before them say, and so reads few at its start."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.engine.archive import checkpoints
from replicator_source_archive.folder import ArchiveFolder
from replicator_source_archive.manifests import Manifests
from replicator_source_archive.offset import ArchiveOffset
from tests.runtime.engine.archive.test_archive import archived
from tests.runtime.engine.archive.test_replayed_renames import Tables
from tests.runtime.engine.archive.test_replays import Replay, age, fill
from tests.runtime.engine.requests import requests
from tests.runtime.engine.test_run import Shop, shop

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["shop"]
EVERY = 3


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "EVERY", EVERY)


def written(archive: Path) -> list[Path]:
    return sorted((archive / "_checkpoints").glob("*.json"))


def read_at_start(archive: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The manifests that are read to know the tables at the archive's end."""
    names: list[str] = []
    read_all = ArchiveFolder.read_all

    def noted(self: ArchiveFolder, wanted: list[str]) -> Any:
        names.extend(wanted)
        return read_all(self, wanted)

    with monkeypatch.context() as patch:
        patch.setattr(ArchiveFolder, "read_all", noted)
        Manifests(ArchiveFolder(str(archive))).states()
    return [name for name in names if name.startswith("_manifests")]


@pytest.mark.parametrize("seed", range(2))
def test_checkpoints_say_what_the_manifests_before_them_say(
    shop: Shop, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, archive = random.Random(seed), archived(shop)
    tables = Tables(shop, chance)
    fill(shop)
    shop.run()
    for number in range(6):
        shop.sql(*tables.change(), *tables.rename_any(), *tables.change())
        if number == 2:
            requests(shop).submit("table.resync", {"tables": sorted(tables.names)[:1], "inPlace": True})
        if number == 5:
            kept = shop.document.pop("archive")
            shop.run()
            shop.document["archive"] = kept
            shop.sql(*tables.change(), f"DROP TABLE {tables.names.popitem()[0]}")
        shop.run()
    assert len(written(archive)) > 2
    plain = tmp_path / "plain"
    shutil.copytree(archive, plain, ignore=shutil.ignore_patterns("_checkpoints"))
    fast, slow = Manifests(ArchiveFolder(str(archive))), Manifests(ArchiveFolder(str(plain)))
    for number in range(1, slow.numbers()[-1] + 2):
        assert fast.states(ArchiveOffset(number)).tables == slow.states(ArchiveOffset(number)).tables
    assert fast.states().tables == slow.states().tables
    assert {state.is_broken for state in fast.states().tables.values()} == {True}
    assert len(read_at_start(archive, monkeypatch)) <= 2 * EVERY < len(read_at_start(plain, monkeypatch))


def test_half_a_checkpoint_is_passed_and_one_that_was_lost_is_not_missed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = archived(shop)
    fill(shop)
    for number in range(8):
        shop.run()
        shop.sql(f"INSERT INTO customers VALUES ({number + 100}, 'x')")
    first, *_, last = written(archive)
    last.write_bytes(last.read_bytes()[:40])
    first.unlink()
    replay = Replay(shop, archive)
    shop.run()
    replay.run()
    assert replay.differences() == {}
    shop.sql("DELETE FROM customers WHERE id > 100")
    shop.run()
    assert len(read_at_start(archive, monkeypatch)) <= 2 * EVERY
    replay.run()
    assert replay.differences() == {}


def test_checkpoints_of_deleted_manifests_are_deleted_but_for_the_last(shop: Shop) -> None:
    archive = archived(shop, keepDays=30)
    fill(shop)
    for number in range(8):
        shop.run()
        shop.sql(f"INSERT INTO customers VALUES ({number + 100}, 'x')")
    assert len(written(archive)) > 1
    age(archive)
    shop.run()
    assert len(written(archive)) == 1
