"""A server whose log is damaged is not one whose log expired: the error says so, and is not retried for ever."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from replicator_sdk.errors import NeedsUserError
from tests.plugins.sources.mysql.pump import Pump
from tests.services.mysql.fixtures import PrivateMysql
from tests.services.mysql.programs import MARIADB_10_11, MYSQL_9, Release

BOTH = pytest.mark.parametrize("release", [MYSQL_9, MARIADB_10_11], ids=lambda release: release.name)
_LENGTH = slice(9, 13)
"""Where an event's header says how long the event is."""


def row_events(content: bytes) -> list[int]:
    """Where the large events of the file begin."""
    found, place = [], 4
    while place < len(content):
        size = int.from_bytes(content[place:][_LENGTH], "little")
        if size > 5000:
            found.append(place)
        place += size
    return found


def with_length(length: int) -> Callable[[bytes, int], bytes]:
    return lambda content, event: content[: event + 9] + length.to_bytes(4, "little") + content[event + 13 :]


DAMAGES = [
    pytest.param(with_length(5), "RPL-3812", id="too short"),
    pytest.param(with_length(300_000), "RPL-3812", id="longer than the file"),
    pytest.param(lambda content, event: content[: event + 700], "RPL-3812", id="cut off"),
    pytest.param(with_length(0x7FFFFFF0), "RPL-3813", id="longer than a packet"),
]


@BOTH
@pytest.mark.parametrize(("damage", "code"), DAMAGES)
def test_a_damaged_event_stops_the_run_and_is_not_lost_history(
    release: Release, damage: Callable[[bytes, int], bytes], code: str, mysql_server: PrivateMysql
) -> None:
    server = mysql_server(release)
    with server.database() as shop:
        shop.execute("CREATE TABLE t (id INT PRIMARY KEY, name LONGTEXT)")
        pump = Pump(shop, "t")
        pump.prepare()
        shop.execute("FLUSH BINARY LOGS")
        log: Path = max(server.data.glob("*bin*.0*"))
        for number in range(3):
            shop.execute(f"INSERT INTO t VALUES ({number}, REPEAT('x', 5000))")
        shop.execute("FLUSH BINARY LOGS")
        content = log.read_bytes()
        log.write_bytes(damage(content, row_events(content)[1]))
        with pytest.raises(NeedsUserError, match=rf"{code}.*{log.name}") as error, pump.running() as run:
            run.wait_until(lambda: run.error is not None)
    assert error.value.code == code
