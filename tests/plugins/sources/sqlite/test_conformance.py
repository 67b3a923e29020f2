"""The SQLite source passes the kit, through the same door a stranger uses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from replicator_sdk.testing.source_suite import SourceConformance
from tests.plugins.sources.sqlite.shop import SqliteShop


class TestSqlite(SourceConformance):
    largest_decimal = 15
    unsupported_types = frozenset({"instant", "array", "record"})
    skipped_cases = {"types_nan": "SQLite keeps NaN as NULL"}  # noqa: RUF012 - overrides a class variable

    @pytest.fixture
    def system(self, tmp_path: Path) -> Iterator[SqliteShop]:
        shop = SqliteShop(tmp_path / "shop.db", chunk_rows=300)
        yield shop
        shop.close()
