"""The source passes the kit on MySQL and on MariaDB, through the same entry point as a plugin of another package."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pytest

from replicator_sdk.testing.source_suite import SourceConformance
from tests.depth import ALL_CASES
from tests.plugins.sources.mysql.source_system import MySqlSystem
from tests.services.mysql.server import MysqlServer


class _Conformance(SourceConformance):
    emits_renames = True
    supports_null_keys = False  # a primary key holds no NULL
    supports_ddl_in_transaction = False  # a change of structure ends the transaction before it
    # There are no arrays, records or UUIDs; a TIME may be negative and have 838 hours, so it arrives as text.
    unsupported_types = frozenset({"array", "record", "uuid", "time"})
    skipped_cases: ClassVar = {
        "tricky_names": "the servers allow characters of the basic plane only in names",
        "types_floats": "the servers have no infinities",
        "types_nan": "the servers have no NaN",
        "types_instants": "a TIMESTAMP begins in 1970; a DATETIME is no instant",
    }
    random_histories = 10 if ALL_CASES else 5


class TestMySql(_Conformance):
    skipped_cases: ClassVar = {
        **_Conformance.skipped_cases,
        "types_json_text": "JSON is stored parsed: 2.50 comes back as 2.5",
    }

    @pytest.fixture
    def system(self, mysql: MysqlServer) -> Iterator[MySqlSystem]:
        with mysql.database() as database:
            shop = MySqlSystem(database)
            yield shop
            shop.close()


class TestMariaDb(_Conformance):
    @pytest.fixture
    def system(self, mariadb: MysqlServer) -> Iterator[MySqlSystem]:
        with mariadb.database() as database:
            shop = MySqlSystem(database)
            yield shop
            shop.close()
