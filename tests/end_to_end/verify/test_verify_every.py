"""A run compares its tables as `replicator verify --every` says, and says of each when it was verified."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from replicator_runtime.engine.schedule.schedule import stored_schedule
from replicator_runtime.engine.schedule.verified_tables import stored
from replicator_runtime.observed.comparisons import verification_json
from replicator_state import ReplicatorDirectory
from tests.end_to_end.verify.shop import Shop, counts, sqlite_shop

if TYPE_CHECKING:
    from collections.abc import Mapping


def asked(shop: Shop, *arguments: str) -> Any:
    return shop.replicator.start_command("verify", str(shop.replicator.pipeline), *arguments).wait()


def verification(shop: Shop) -> Any:
    """What `replicator status` shows of it, without the second that a command takes."""
    store = ReplicatorDirectory(str(shop.replicator.state), "default", "shop").states().scoped("runtime")
    return verification_json(stored_schedule(store), stored(store)) or {"tables": []}


def verified(shop: Shop, after: Mapping[str, str] | None = None) -> dict[str, Mapping[str, Any]]:
    """What was found of each table, once all three have a result that is later than `after`."""
    deadline = time.monotonic() + 180
    while True:
        found = {one["table"]: one for one in verification(shop)["tables"]}
        if len(found) == 3 and all(
            (one["verifiedAt"] or "") > (after or {}).get(name, "") for name, one in found.items()
        ):
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.5)


@pytest.mark.timeout(600)
def test_a_run_finds_by_itself_what_was_damaged_and_stops_for_nothing(tmp_path: Path) -> None:
    shop = sqlite_shop(tmp_path)
    shop.begin()
    running = shop.replicator.start()
    shop.wait_until_replicating()
    ended = asked(shop, "--every", "1h", "--rate", "100000")
    assert ended.status == 0, ended.messages
    first = verified(shop)
    assert {(one["result"], one["rowsSource"], one["error"]) for one in first.values()} == {("equal", 200, None)}
    shop.damage("item", "DELETE FROM {} WHERE id IN (100, 101)")
    time.sleep(1.1)  # times have seconds
    assert asked(shop, "--every", "1h").status == 0  # which makes all due
    found = verified(shop, {name: one["verifiedAt"] for name, one in first.items()})
    assert {name: (one["result"], *counts(one)) for name, one in found.items()} == {
        "item": ("different", 2, 0, 0),
        "part": ("equal", 0, 0, 0),
        "visit": ("equal", 0, 0, 0),
    }
    stopped = running.stop()
    assert stopped.status == 143
    assert "RPL-5030" in stopped.messages
    again = shop.replicator.start()
    shop.wait_until_replicating()
    assert verified(shop) == found
    assert asked(shop, "--every", "never").status == 0
    shown = (
        shop.replicator.start_command("status", str(shop.replicator.pipeline)).wait().envelope["data"]["verification"]
    )
    assert shown == {**verification(shop), "everySeconds": None}
    assert again.stop().status == 143


@pytest.mark.timeout(600)
def test_java_that_dies_while_it_compares_says_nothing_of_the_table_and_the_run_compares_it_later(
    tmp_path: Path,
) -> None:
    shop = sqlite_shop(tmp_path)
    shop.begin()
    running = shop.replicator.start(TMPDIR=str(tmp_path))  # with a variable of its own it has its own virtual machine
    shop.wait_until_replicating()
    assert asked(shop, "--every", "1h", "--rate", "20").status == 0
    before = _until_some_but_not_all(shop)
    _java(running.process.pid).kill()
    shop.execute("DELETE FROM item WHERE id = 7")
    found = verified(shop)
    assert {(one["result"], one["error"]) for one in found.values()} == {("equal", None)}
    assert {name: found[name]["verifiedAt"] for name in before} == before, "the others begin again"
    stopped = running.stop()
    assert stopped.status == 143, stopped.messages
    assert "RPL-5030" not in stopped.messages


def _until_some_but_not_all(shop: Shop) -> dict[str, str]:
    """Wait until some tables have their results, and the next is being compared: for ten seconds, at twenty rows a second."""
    deadline = time.monotonic() + 120
    while not (found := {one["table"]: one["verifiedAt"] for one in verification(shop)["tables"] if one["verifiedAt"]}):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert len(found) < 3
    time.sleep(2)
    return found


def _java(process: int) -> psutil.Process:
    return next(child for child in psutil.Process(process).children(recursive=True) if child.name() == "java")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--every", "6"), "RPL-1379"),
        (("--every", "30s"), "RPL-1379"),
        (("item", "--every", "never"), "RPL-1380"),
        (("itm", "--every", "6h"), "RPL-1220"),
    ],
)
def test_bad_input_is_one_line_with_a_next_step(made: Shop, arguments: tuple[str, ...], code: str) -> None:
    ended = asked(made, *arguments)
    assert (ended.status, ended.error["code"]) == (3, code), ended.messages
    assert ended.error["hint"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    shop = sqlite_shop(tmp_path_factory.mktemp("made"))
    shop.begin()
    shop.replicator.until_current()
    return shop
