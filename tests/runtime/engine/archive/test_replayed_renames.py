"""Tables that are renamed go on in the archive, and a pipeline that reads it renames them as well."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.engine.archive import archive as change_archive
from replicator_runtime.engine.preparation import renames as rename_steps
from replicator_sdk import DDLOperation
from replicator_sdk.errors import FencedError, NeedsUserError, RetryableError
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.archive.rebuilt import entries_of, rebuilt
from tests.runtime.engine.archive.test_archive import archived
from tests.runtime.engine.archive.test_replays import Replay, fill, replayed
from tests.runtime.engine.requests import requests
from tests.runtime.engine.test_run import Shop, shop

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from replicator_sdk import TableId

__all__ = ["shop"]


class DiedError(FencedError):
    """The process dies."""


class Tables:
    """Tables with a key and without one, which get other names and each other's."""

    def __init__(self, shop: Shop, chance: random.Random) -> None:
        self.shop, self.chance = shop, chance
        shop.sql("CREATE TABLE third (id INTEGER PRIMARY KEY, name TEXT)")
        self.names = {"customers": True, "notes": False, "third": True}
        self._number = itertools.count(1000)

    def change(self) -> list[str]:
        found = []
        for name, has_key in self.names.items():
            number = next(self._number)
            if has_key:
                found.append(f"INSERT INTO {name} (id, name) VALUES ({number}, 'n{number}')")
                found.append(f"UPDATE {name} SET name = 'u{number}' WHERE id % 7 = {number % 7}")
                found.append(f"DELETE FROM {name} WHERE id = {self.chance.randrange(1, 20)}")
            else:
                found.append(f"INSERT INTO {name} (text) VALUES ('a'), ('n{number}')")
                found.append(f"DELETE FROM {name} WHERE rowid = (SELECT min(rowid) FROM {name})")
        return found

    def rename(self, **names: str) -> list[str]:
        """Statements that give tables other names, all at once."""
        kinds = {name: self.names.pop(former) for former, name in names.items()}
        self.names |= kinds
        aside = [f"ALTER TABLE {former} RENAME TO x_{former}" for former in names]
        return aside + [f"ALTER TABLE x_{former} RENAME TO {name}" for former, name in names.items()]

    def rename_any(self) -> list[str]:
        there = self.chance.sample(sorted(self.names), k=3)
        first, second, third = there
        kind = self.chance.randrange(4)
        if kind == 0:
            return self.rename(**{first: f"t{next(self._number)}"})
        if kind == 1:
            return self.rename(**{first: second, second: first})
        if kind == 2:
            return self.rename(**{first: second, second: third, third: first})
        return self.rename(**{first: f"t{next(self._number)}", second: first})


def copies(replay: Replay) -> list[str]:
    """Fills with the tables that the replay copies from now on."""
    found: list[str] = []

    def note(at: str, where: TableId) -> None:
        if at == "load":
            found.append(where.table)

    replay.storage.fault = note
    return found


def assert_rebuilt(archive: Path, shop: Shop, names: Sequence[str]) -> None:
    tables = rebuilt(archive)
    assert set(tables) == set(names)
    for name in names:
        rows = [tuple(row[column] for column in tables[name].names) for row in shop.source_rows(name)]
        assert sorted(tables[name].bag().elements(), key=repr) == sorted(rows, key=repr)


def run_through_faults(shop: Shop, chance: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that fail at the target, or are killed where the archive has a rename, or the target, until one is done."""
    left = chance.randrange(3)

    def fault(at: str, where: TableId) -> None:
        nonlocal left
        if left and at in {"before", "after", "ddl", "ddl applied"} and chance.random() < 0.5:
            left -= 1
            if at.startswith("ddl") and chance.random() < 0.5:
                raise RetryableError("locked", code="RPL-4001")
            raise DiedError(
                "killed", code="RPL-8001"
            )  # a table that fails when it is renamed is copied under its new name

    def die(point: str) -> None:
        nonlocal left
        if left and point in {"engine.archive.renamed", "engine.rename.applied"} and chance.random() < 0.5:
            left -= 1
            raise DiedError("killed", code="RPL-8001")

    in_memory_target.STORAGE.fault = fault
    with monkeypatch.context() as patch:
        patch.setattr(change_archive, "failpoint", die)
        patch.setattr(rename_steps, "failpoint", die)
        while True:
            try:
                shop.run()
            except DiedError:
                continue
            break
    in_memory_target.STORAGE.fault = lambda *_: None


@pytest.mark.parametrize("seed", range(4))
def test_random_histories_with_renames_are_replayed_without_another_copy(
    shop: Shop, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, archive = random.Random(seed), archived(shop)
    tables = Tables(shop, chance)
    fill(shop)
    shop.run()
    replay, late = Replay(shop, archive), Replay(shop, archive)
    late.document["name"] = "late"
    replay.run()
    copied = copies(replay)
    for number in range(4):
        shop.sql(*tables.change())
        shop.sql(*tables.rename_any())
        shop.sql(*tables.change())
        if number == 1:
            shop.sql(*tables.rename_any())
        run_through_faults(shop, chance, monkeypatch)
        assert_rebuilt(archive, shop, list(tables.names))
        if number != 2:
            replay.run()
            assert replay.differences(*tables.names) == {}
    late.run()
    for one in (replay, late):
        shop.sql(*tables.change())
        shop.run()
        one.run()
        assert one.differences(*tables.names) == {}
        assert {table.table for table in one.storage.tables} == set(tables.names)
    assert copied == []
    assert "break" not in {entry["kind"] for entry in entries_of(archive)}


def renamed(replay: Replay) -> list[tuple[str, str]]:
    events = [event for event in replay.storage.ddl if event.operation is DDLOperation.RENAME_TABLE]
    return [(event.prev_table.table, event.table.table) for event in events if event.prev_table is not None]


def test_tables_that_exchange_names_are_one_entry_without_the_name_in_between(shop: Shop) -> None:
    archive = archived(shop)
    tables = Tables(shop, random.Random(0))
    fill(shop)
    shop.run()
    replay = Replay(shop, archive)
    replay.run()
    shop.sql(*tables.rename(customers="notes", notes="customers"), *tables.change())
    shop.run()
    [entry] = [entry for entry in entries_of(archive) if entry["kind"] == "rename"]
    names = {(one["former"]["table"], one["schema"]["table"]["table"]) for one in entry["renames"]}
    assert names == {("customers", "notes"), ("notes", "customers")}
    replay.run()
    assert len(renamed(replay)) == 3  # one of them is put aside at the target
    assert replay.differences(*tables.names) == {}


def test_a_renamed_table_that_waits_for_a_copy_is_copied_under_its_new_name(shop: Shop) -> None:
    archive, replay = replayed(shop)
    kept: Any = shop.document.pop("archive")
    shop.sql("INSERT INTO customers VALUES (100, 'not archived')")
    shop.run()
    shop.document["archive"] = kept
    shop.sql("INSERT INTO customers VALUES (101, 'x')", "ALTER TABLE customers RENAME TO people")
    shop.sql("INSERT INTO people VALUES (102, 'y')")
    shop.run()
    with pytest.raises(NeedsUserError, match="RPL-3556"):
        replay.run()
    assert rebuilt(archive)["people"].rows is None
    requests(shop).submit("table.resync", {"tables": ["people"], "inPlace": True})
    shop.sql("INSERT INTO people VALUES (103, 'z')")
    shop.run()
    replay.run()
    assert replay.differences("people", "notes") == {}
