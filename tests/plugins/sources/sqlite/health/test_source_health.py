"""The database says how many changes its log has after an offset."""

from __future__ import annotations

from pathlib import Path

import pytest

from replicator_sdk.errors import ReplicatorError
from replicator_source_sqlite.config import SqliteConfig
from replicator_source_sqlite.plugin import SqliteSource
from tests.plugins.sources.sqlite.source_system import SqliteSystem


def test_changes_after_the_offset_are_counted(tmp_path: Path) -> None:
    shop = SqliteSystem(tmp_path / "shop.db", batch_rows=50)
    try:
        source = shop.source
        assert isinstance(source, SqliteSource)
        shop.database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)")
        offset = source.latest_offset()
        assert source.health(offset, namespace="default", name="x").waiting_changes == 0
        logged = "INSERT INTO _replicator_changes (version, op, at) VALUES (1, 0, 0)"
        shop.database.execute(logged)
        shop.database.execute(logged)
        assert source.health(offset, namespace="default", name="x").waiting_changes == 2
        assert source.health(None, namespace="default", name="x").waiting_changes is None
    finally:
        shop.close()


def test_a_database_that_is_gone_raises(tmp_path: Path) -> None:
    with pytest.raises(ReplicatorError):
        SqliteSource(SqliteConfig(path=tmp_path / "gone.db")).health(None, namespace="default", name="x")
