"""The SQLite source passes the conformance kit, as a third-party source would."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from replicator_sdk.testing.source_suite import SourceConformance
from tests.plugins.sources.sqlite.source_system import SqliteSystem


class TestSqlite(SourceConformance):
    emits_renames = True
    supports_retype_column = False  # SQLite has no statement for it
    supports_change_key = False
    largest_decimal = 15
    unsupported_types = frozenset({"instant", "array", "record"})
    skipped_cases = {"types_nan": "SQLite keeps NaN as NULL"}  # noqa: RUF012 - overrides a class variable

    @pytest.fixture
    def system(self, tmp_path: Path) -> Iterator[SqliteSystem]:
        shop = SqliteSystem(tmp_path / "shop.db", chunk_rows=300)
        yield shop
        shop.close()
