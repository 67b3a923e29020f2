"""What is saved of the tables is read again as it was, and a save writes few tables however many there are."""

from __future__ import annotations

import json
import random
import threading
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime import stored_forms
from replicator_runtime.engine.tables.table_file import TableFile, table_key
from replicator_runtime.engine.tables.table_state import TableState
from replicator_runtime.engine.tables.table_store import TableStore
from replicator_runtime.stored_forms import CHANGES, TABLES
from replicator_sdk import Column, Position, TableId, TableSchema
from replicator_sdk.datatype import STRING
from replicator_sdk.errors import HistoryLostError, NeedsUserError
from replicator_sdk.schema import replace_columns
from replicator_state import ReplicatorDirectory
from tests.runtime.engine.log_model import Place, table

if TYPE_CHECKING:
    from pathlib import Path

    from replicator_state import StateStore


class Counting:
    """A store that counts what is written."""

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self.written: list[int] = []
        self.fault: Exception | None = None
        self.beside: list[threading.Event] = []

    def get(self, key: str) -> bytes | None:
        return self._store.get(key)

    def put(self, key: str, value: bytes, *, numbered: bool = False) -> None:
        for event in self.beside:
            event.wait(120)
        if self.fault is not None:
            raise self.fault
        self.written.append(len(value))
        self._store.put(key, value)


@pytest.fixture
def store(tmp_path: Path) -> Counting:
    return Counting(ReplicatorDirectory(str(tmp_path), "default", "shop").states())


def opened(store: Any) -> TableStore:
    found = TableStore(store, Place.from_fields)
    found.load()
    return found


def filled(store: Any, count: int) -> TableStore:
    found = opened(store)
    for number in range(count):
        found.record(TableId("db", f"t{number}")).learn(None, table(f"t{number}"))
    found.save()
    return found


def content(found: TableStore) -> dict[str, Any]:
    return {str(t): (r.state, r.created, [s for _, s in r.schemas]) for t, r in found.records.items()}


@pytest.mark.parametrize("damaged", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_what_many_saves_left_is_read_as_it_was(tmp_path: Path, seed: int, damaged: bool) -> None:
    """Also where the newest file of all tables is damaged: the changes fit the one before it."""
    chance = random.Random(seed)
    directory = ReplicatorDirectory(str(tmp_path), "default", "shop")
    lease = directory.acquire("r")
    found = filled(directory.states(lease), 40)
    for step in range(chance.randint(60, 120)):
        record = chance.choice(list(found.records.values()))
        record.state = chance.choice(list(TableState))
        if step % 17 == 16:
            del found.records[record.table]
            found.selection = {"step": step}
            found.save()
        else:
            found.save(record)
    if damaged:  # a reader of the tables before the newest ones misses at most what one save wrote
        for record in list(found.records.values())[:2]:
            record.created = True
            found.save(record)
        [newest] = [f for f in tmp_path.rglob("state-engine-tables.*") if not f.name.endswith(".previous")]
        newest.write_bytes(b"broken")
    lease.release()
    later = directory.acquire("s")
    again = opened(directory.states(later))
    assert content(again) == content(found)
    assert again.selection == found.selection
    record = again.records[min(again.records)]
    record.created = True
    again.save(record)
    assert content(opened(directory.states(later))) == content(again)
    later.release()


def test_what_is_saved_after_a_damaged_file_counts_before_the_changes_that_were_read_with_it(tmp_path: Path) -> None:
    """Also where the run that found the damage ends after one save."""
    directory = ReplicatorDirectory(str(tmp_path), "default", "shop")
    lease = directory.acquire("r")
    found = filled(directory.states(lease), 40)
    for record in found.records.values():
        record.created = True
    found.save()
    record = found.records[TableId("db", "t3")]
    record.state = TableState.SNAPSHOTTING
    found.save(record)
    [newest] = [f for f in tmp_path.rglob("state-engine-tables.*") if not f.name.endswith(".previous")]
    newest.write_bytes(b"broken")
    lease.release()
    for run in ("s", "u"):
        lease = directory.acquire(run)
        again = opened(directory.states(lease))
        record = again.records[TableId("db", "t3")]
        record.state = TableState.REPLICATING if run == "s" else record.state
        again.save(record)
        lease.release()
    assert record.state is TableState.REPLICATING


def tables_files(folder: Path) -> list[Path]:
    """The files of all tables, without those of the changes."""
    return list(folder.rglob("state-*engine-tables.*"))


@pytest.mark.parametrize("is_there", [True, False])
def test_tables_of_a_time_before_those_that_the_changes_are_of_are_refused(tmp_path: Path, is_there: bool) -> None:
    """As when the file of all tables is of an older backup, or is lost: what was saved since would be forgotten."""
    directory = ReplicatorDirectory(str(tmp_path), "default", "shop")
    lease = directory.acquire("r")
    found = filled(directory.states(lease).scoped("runtime"), 40)
    backup = [(file, file.read_bytes()) for file in tables_files(tmp_path)]
    for created in (True, False, True):
        for record in found.records.values():
            record.created = created
        found.save()
    record = found.records[TableId("db", "t3")]
    record.state = TableState.SNAPSHOTTING
    found.save(record)
    lease.release()
    for file in tables_files(tmp_path):
        file.unlink()
    for file, content in backup if is_there else ():
        file.write_bytes(content)
    opened(directory.states().scoped("runtime"))  # what only looks is not refused
    for run in ("s", "t"):
        later = directory.acquire(run)
        with pytest.raises(HistoryLostError, match=r"RPL-7125.*replicator reset"):
            opened(directory.states(later).scoped("runtime"))
        later.release()


class Memory:
    """Holds the values without a disk, where only their size counts."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self._values.get(key)

    def put(self, key: str, value: bytes, *, numbered: bool = False) -> None:
        self._values[key] = value


def test_a_save_writes_few_tables_however_many_there_are() -> None:
    """Twenty-five times as many tables cost less than eight times as much a save."""
    mean: dict[int, float] = {}
    for count in (40, 1000):
        counting = Counting(Memory())  # type: ignore[arg-type]
        found = filled(counting, count)
        counting.written.clear()
        for record in list(found.records.values()) * (2000 // count):
            record.created = not record.created
            found.save(record)
        mean[count] = sum(counting.written) / len(counting.written)
    assert mean[1000] < 8 * mean[40]


def test_what_is_stored_already_is_not_written(store: Counting) -> None:
    found = filled(store, 3)
    store.written.clear()
    found.save()
    found.save(found.records[TableId("db", "t1")])
    assert store.written == []


def test_several_threads_share_a_write(store: Counting) -> None:
    found = filled(store, 100)
    store.written.clear()
    store.beside = [threading.Event()]
    threads = []
    for record in found.records.values():
        record.created = True
        threads.append(threading.Thread(target=found.save, args=[record]))
    for thread in threads:
        thread.start()
    store.beside[0].set()
    for thread in threads:
        thread.join(120)
    assert len(store.written) < 50
    assert content(opened(store)) == content(found)


def test_a_write_that_fails_fails_for_each_that_waits_for_it_and_is_made_again(store: Counting) -> None:
    found = filled(store, 20)
    store.fault = OSError("no space")
    record = found.records[TableId("db", "t3")]
    record.created = True
    del found.records[TableId("db", "t4")]
    for _ in range(2):
        with pytest.raises(OSError, match="no space"):
            found.save(record)
    store.fault = None
    found.save(record)
    assert content(opened(store)) == content(found)


def test_the_layout_of_earlier_versions_is_read(store: Counting) -> None:
    found = filled(store, 2)
    tables = [found._json(record) for record in found.records.values()]
    for entry, record in zip(tables, found.records.values(), strict=True):
        del entry["failingSince"], entry["released"]
        twice = [*record.schemas, record.schemas[-1]]
        entry["schemas"] = [[since and since.to_json(), schema.to_json()] for since, schema in twice]
        record.schemas = twice
    store.put("engine-tables", json.dumps({"version": 1, "tables": tables, "selection": {"a": 1}}).encode())
    again = opened(store)
    assert content(again) == content(found)
    assert again.selection == {"a": 1}
    again.save(again.records[TableId("db", "t0")])
    assert content(opened(store)) == content(found)


def test_a_reader_beside_a_run_that_writes_finds_one_of_its_saves(store: Counting) -> None:
    """Between its two reads both were written: it reads again."""
    found = filled(store, 30)
    read = store._store.get
    calls: list[str] = []

    class Beside:
        def get(self, key: str) -> bytes | None:
            content = read(key)
            calls.append(key)
            if len(calls) == 1:
                for record in found.records.values():
                    record.created = True
                    found.save(record)
            return content

    again = TableFile(Beside())  # type: ignore[arg-type]
    tables, _ = again.load()
    assert len(calls) > 2
    assert {table_key(t["table"]) for t in tables if t["created"]} == {table_key(t.to_json()) for t in found.records}


@pytest.mark.parametrize("key", [TABLES, CHANGES])
def test_earlier_releases_refuse_the_form(store: Counting, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """They would not find the columns."""
    tables = filled(store, 20)
    tables.save()
    record = tables.records[TableId("db", "t7")]
    record.created = True
    tables.save(record)
    content = store.get(key)
    assert content is not None
    monkeypatch.setitem(stored_forms._FORMS, key, 3)
    with pytest.raises(NeedsUserError, match="RPL-7161"):
        stored_forms.parsed(key, content)


def test_equal_schemas_are_stored_once_and_read_as_they_were(store: Counting) -> None:
    columns = [Column(f"c{number}", STRING, number > 0, "text", str(number)) for number in range(30)]
    wide = TableSchema(TableId("db", "wide"), tuple(columns), ("c0",), "4711")
    other = replace_columns(wide, columns[:20])
    tables = filled(store, 1)
    record = tables.record(wide.table)
    record.schemas = [(None, wide), (Position(Place(1)), wide), (Position(Place(2)), other), (Position(Place(3)), wide)]
    before = tables.records[TableId("db", "t0")].schemas
    tables.save()
    again = opened(store)
    assert again.records[wide.table].schemas == record.schemas
    assert again.records[TableId("db", "t0")].schemas == before
    assert store.written[-1] < 5000
