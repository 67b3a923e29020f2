"""Two commands of two processes at once, without a run and beside one: each is done or refused, and source and copy end equal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.commands.two_tables import Shop, two_tables
from tests.end_to_end.replicator import Ended

_TOGETHER = (
    (("table", "resync", "item", "--in-place", "--yes"), ("table", "resync", "item", "note", "--in-place", "--yes")),
    (("table", "pause", "item"), ("table", "pause", "item")),
    (("table", "resume", "item"), ("table", "resync", "item", "--in-place", "--yes")),
    (("pause",), ("resume",)),
)
_LATE = frozenset({"RPL-1290", "RPL-1291", "RPL-1293"})
"""What a command is refused with that comes after the other one."""


@pytest.fixture(params=["sqlite", "postgres", "mysql"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    made = two_tables(request, request.param, tmp_path)
    made.begin()
    return made


def together(shop: Shop, *commands: tuple[str, ...]) -> list[Ended]:
    """Both begin before one has ended."""
    begun = []
    for words in commands:
        names = 2 if words[0] == "table" else 1
        begun.append(shop.replicator.start_command(*words[:names], str(shop.replicator.pipeline), *words[names:]))
    return [one.wait() for one in begun]


def check(ended: list[Ended]) -> None:
    """At least one was done; what was not done was refused since the other one was first."""
    assert 0 in {one.status for one in ended}, [one.messages for one in ended]
    assert {one.error["code"] for one in ended if one.status} <= _LATE, [one.messages for one in ended]


def change(shop: Shop, number: int) -> None:
    for table in ("item", "note"):
        shop.execute(
            f"INSERT INTO {table} (id, name) VALUES ({1000 + number}, 'change {number}')",
            f"UPDATE {table} SET name = 'change {number}' WHERE id = {number}",
            f"DELETE FROM {table} WHERE id = {20 + number}",
        )


@pytest.mark.timeout(2400)
@pytest.mark.parametrize("beside", [True, False], ids=["beside a run", "without one"])
def test_each_is_done_or_refused_and_the_copy_ends_equal(shop: Shop, beside: bool) -> None:
    shop.replicator.until_current()
    running = shop.replicator.start() if beside else None
    for number, commands in enumerate(_TOGETHER):
        change(shop, number)
        check(together(shop, *commands))
    for words in (("resume",), ("table", "resume", "item")):
        check([*together(shop, words), *together(shop, ("status",))])
    change(shop, 10)
    if running is None:
        shop.replicator.until_current()
        assert shop.differs("item", "note") == []
    else:
        shop.wait_until_equal()
        assert running.stop().status == 143
    requests = shop.replicator.start_command("requests", str(shop.replicator.pipeline)).wait().envelope["data"]
    assert len(requests) >= 2 * len(_TOGETHER)
    assert all(one["state"] in {"done", "refused"} for one in requests), requests
