"""A backup of a Delta table's folder that is put back after the table went on is noticed, and the table copied again."""

from __future__ import annotations

import shutil

import pytest

from tests.crash.sqlite.conftest import MakePair


@pytest.mark.timeout(900)
def test_a_delta_folder_put_back_from_a_backup_is_copied_again(make_pair: MakePair) -> None:
    pair = make_pair(delta=True)
    pair.run_until_current()
    folder, backup = pair.replicator.lake / "main" / "customer", pair.replicator.folder / "backup"
    shutil.copytree(folder, backup)
    pair.change_rows()
    assert "RPL-4110" not in pair.run_until_current().messages
    shutil.rmtree(folder)
    shutil.copytree(backup, folder)
    assert pair.differences() != {}
    ended = pair.run_until_current()
    assert pair.differences() == {}
    assert "RPL-4110" in ended.messages
    for life in range(3):
        pair.change_rows()
        pair.database.run(f"ALTER TABLE customer ADD COLUMN extra{life} TEXT DEFAULT 'x'")
        pair.database.notice()
        pair.change_rows()
        assert "RPL-4110" not in pair.run_until_current().messages
        assert pair.differences() == {}, life
