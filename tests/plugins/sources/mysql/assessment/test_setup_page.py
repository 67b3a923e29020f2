"""The set-up page's statements run as they are printed, and a server set up by them is ready."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from replicator_sdk import TableId
from replicator_source_mysql.assessment.assessor import check_server, check_tables
from tests.plugins.sources.mysql.snapshot_reading import endpoint_of
from tests.services.mysql.fixtures import PrivateMysql
from tests.services.mysql.programs import MARIADB_10_11, MYSQL_9, Release

_PAGE = Path(__file__).parents[5] / "docs" / "source-mysql.md"
_BLOCK = re.compile(r"^```sql([a-z ]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"--.*$", re.MULTILINE)


def _statements(kind: str) -> list[str]:
    blocks = [text for kinds, text in _BLOCK.findall(_PAGE.read_text()) if kind in kinds.split()]
    return [part.strip() for text in blocks for part in _COMMENT.sub("", text).split(";") if part.strip()]


def test_every_block_says_for_which_server_it_is() -> None:
    kinds = [set(kinds.split()) for kinds, _ in _BLOCK.findall(_PAGE.read_text())]
    assert kinds
    assert all(kind and kind <= {"mysql", "mariadb"} for kind in kinds)


@pytest.mark.parametrize("release", [MYSQL_9, MARIADB_10_11], ids=lambda release: release.name)
def test_a_server_set_up_by_the_page_is_ready(release: Release, mysql_server: PrivateMysql) -> None:
    """On a server with other settings and no account; the checks before a run then have nothing against it."""
    server = mysql_server(release, gtid=False, binlog_format="MIXED", binlog_row_image="MINIMAL")
    server.execute("CREATE DATABASE shop")
    server.execute("CREATE TABLE shop.t (a int)")
    for statement in _statements("mariadb" if release.is_mariadb else "mysql"):
        server.execute(statement)
    with server.database() as database:
        endpoint = endpoint_of(database, user="replicator", password="a long password")
        with endpoint.session() as connection:
            check_server(connection)
            check_tables(connection, [TableId("shop", "t")], endpoint.config)
    expected = {"binlog_format": "ROW", "binlog_row_image": "FULL"}
    found = {name: server.query(f"SELECT @@GLOBAL.{name}")[0][0] for name in expected}
    assert found == expected
