"""What a kill leaves half written, on a file system without hard links, keeps no run from going on."""

from __future__ import annotations

import errno
import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from replicator_sdk.errors import NeedsUserError
from replicator_state import LaneFolder
from tests.runtime.engine.archive.test_archive import archived, assert_archived
from tests.runtime.engine.test_run import Shop, shop

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["shop"]


@pytest.fixture(autouse=True)
def without_links(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise OSError(errno.EPERM, "no hard links")

    monkeypatch.setattr(os, "link", refused)


def manifests(archive: Path) -> list[Path]:
    return sorted((archive / "_manifests").iterdir())


def test_a_half_manifest_is_replaced_by_an_empty_one_and_its_changes_are_archived(shop: Shop) -> None:
    archive = archived(shop)
    shop.run()
    shop.sql("INSERT INTO customers VALUES (1, 'one')")
    shop.run()
    last = manifests(archive)[-1]
    following = last.with_name(f"{int(last.stem) + 1:012d}.json")
    following.write_bytes(last.read_bytes()[:60])
    shop.sql("INSERT INTO customers VALUES (2, 'two')")
    shop.run()
    assert json.loads(following.read_text())["entries"] == []
    assert_archived(shop, archive)


def test_a_half_owner_of_a_first_run_is_written_again(shop: Shop) -> None:
    archive = archived(shop)
    archive.mkdir()
    (archive / "_archive.json").write_text('{"version": 1, "names')
    shop.sql("INSERT INTO customers VALUES (1, 'one')")
    shop.run()
    assert_archived(shop, archive)
    assert json.loads((archive / "_archive.json").read_text())["name"] == "shop"


def test_a_half_note_of_what_is_about_to_be_written_is_passed(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = archived(shop)
    shop.run()
    create = LaneFolder.create

    def cut(self: LaneFolder, name: str, content: bytes) -> None:
        if not name.endswith(".intent"):
            create(self, name, content)
            return
        create(self, name, content[:5])
        raise NeedsUserError("as if it was killed", code="RPL-7104")

    shop.sql("INSERT INTO customers VALUES (1, 'one')")
    with monkeypatch.context() as patch:
        patch.setattr(LaneFolder, "create", cut)
        with pytest.raises(NeedsUserError):
            shop.run()
    shop.run()
    assert_archived(shop, archive)


def test_a_damaged_manifest_that_others_follow_is_refused_by_its_name(shop: Shop) -> None:
    archive, state = archived(shop), shop.path.parent / "state"
    shop.document["offsetBasePath"] = str(state)
    shop.run()
    known = len(manifests(archive))
    shutil.copytree(state, shop.path.parent / "backup")
    for number in range(2):
        shop.sql(f"INSERT INTO customers VALUES ({number}, 'one')")
        shop.run()
    shutil.rmtree(state)
    shutil.copytree(shop.path.parent / "backup", state)
    damaged = manifests(archive)[known]
    damaged.write_bytes(damaged.read_bytes()[:-9])
    with pytest.raises(NeedsUserError, match=damaged.name) as raised:
        shop.run()
    assert raised.value.code == "RPL-1253"


def test_a_file_that_is_replaced_while_it_is_written_is_not_taken_for_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from replicator_state.storage import local_folder

    folder, write = local_folder.LocalFolder(tmp_path), local_folder._write

    def overtaken(path: Path, content: bytes) -> None:
        write(path, content)
        if path.name == "one":
            path.unlink()
            write(path, b"another run's")

    monkeypatch.setattr(local_folder, "_write", overtaken)
    with pytest.raises(FileExistsError):
        folder.create("one", b"ours")
