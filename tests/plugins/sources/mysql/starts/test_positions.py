"""A position of the binlog is found by file and position, by GTIDs and by a time, or refused with a next step."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta

import pytest

from replicator_sdk import StartFrom
from replicator_sdk.errors import HistoryLostError, NeedsUserError
from replicator_source_mysql import MySqlSource
from replicator_source_mysql.offset import MySqlOffset
from tests.plugins.sources.mysql.pump import source_of
from tests.services.mysql.fixtures import PrivateMysql
from tests.services.mysql.programs import MARIADB_10_11, MYSQL_9, Release
from tests.services.mysql.server import MysqlDatabase

BOTH = pytest.mark.parametrize("release", [MYSQL_9, MARIADB_10_11], ids=lambda release: release.name)


def there(shop: MysqlDatabase, source: MySqlSource) -> tuple[MySqlOffset, str, str]:
    """The end of the log: as an offset, as file and position, and as the server's GTIDs."""
    end = source.latest_offset()
    name = "gtid_binlog_pos" if shop.server.is_mariadb else "gtid_executed"
    return end, f"{end.file}:{end.position}", str(shop.query(f"SELECT @@GLOBAL.{name}")[0][0])


def find(source: MySqlSource, offset: str = "", moment: datetime | None = None) -> MySqlOffset:
    found = source.find_start(StartFrom(offset, moment), namespace="default", name="later")
    assert isinstance(found, MySqlOffset)
    return found


def next_second() -> datetime:
    moment = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1)
    while (left := (moment - datetime.now(UTC)).total_seconds()) > 0:
        time.sleep(left)
    return moment


@BOTH
def test_positions_of_a_log_of_several_files(mysql_server: PrivateMysql, release: Release) -> None:
    server = mysql_server(release)
    with server.database() as shop:
        source = source_of(shop)
        shop.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        places, times = [there(shop, source)], [next_second()]
        for number in range(6):
            shop.execute(f"INSERT INTO t VALUES ({number}), ({100 + number})")
            places.append(there(shop, source))
            times.append(next_second())
            if number in {1, 3}:
                server.execute("FLUSH BINARY LOGS")
        for (end, place, gtids), moment in zip(places, times, strict=True):
            for found in (find(source, place), find(source, gtids), find(source, moment=moment)):
                assert str(found.gtids) == str(end.gtids)
                assert found.proof
                source.check_log(found, namespace="default", name="later")
            assert find(source, place) == end
        _check_refusals(source, places)
        newest = str(server.query("SHOW BINARY LOGS")[-1][0])
        server.execute(f"PURGE BINARY LOGS TO '{newest}'")
        _check_gone(source, places, times)


def _check_refusals(source: MySqlSource, places: list[tuple[MySqlOffset, str, str]]) -> None:
    end, _, gtids = places[-1]
    refusals = {
        "1200": "RPL-3815",
        "nonsense": "RPL-3815",
        f"{end.file}:{end.position + 1000}": "RPL-3816.*ends at",
        "binlog.999999:4": "RPL-3816.*ends at",
        f"{places[1][0].file}:{places[1][0].position - 1}": "RPL-3816.*not between two transactions",
        re.sub(r"(\d+)$", lambda found: str(int(found[1]) + 50), gtids): "RPL-3816.*ends at",
    }
    for text, error in refusals.items():
        with pytest.raises(NeedsUserError, match=f"(?s){error}"):
            find(source, text)
    with pytest.raises(NeedsUserError, match=r"RPL-3816.*has not come"):
        find(source, moment=datetime.now(UTC) + timedelta(days=1))


def _check_gone(source: MySqlSource, places: list[tuple[MySqlOffset, str, str]], times: list[datetime]) -> None:
    hints = []
    for text, moment in ((places[0][1], None), (places[0][2], None), ("", times[0])):
        with pytest.raises(HistoryLostError, match="RPL-3817") as gone:
            find(source, text, moment)
        hints.append(gone.value.hint)
    assert len(set(hints)) == 1
    earliest = hints[0].partition('"offset": "')[2].partition('"')[0]
    assert find(source, earliest).file == earliest.partition(":")[0]


def test_a_server_without_gtids_has_files_and_times(mysql_server: PrivateMysql) -> None:
    server = mysql_server(MYSQL_9, gtid=False)
    with server.database() as shop:
        source = source_of(shop)
        shop.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        end, place, _ = there(shop, source)
        moment = next_second()
        shop.execute("INSERT INTO t VALUES (1)")
        assert find(source, place) == end
        assert find(source, moment=moment) == end
        with pytest.raises(NeedsUserError, match="RPL-3816"):
            find(source, "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5")
