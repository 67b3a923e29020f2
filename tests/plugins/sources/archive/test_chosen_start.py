"""A first start of an archive at an earlier position has the columns of there, or refuses the table and names a position that works."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from replicator_sdk import Column, EventReaderDefinition, StartFrom, TableId, TableSchema
from replicator_sdk.datatype import INT64, STRING
from replicator_sdk.errors import HistoryLostError, NeedsUserError
from replicator_sdk.testing.contexts import CollectingEmitter, TestSourceContext
from replicator_sdk.testing.histories.history import Step
from replicator_source_archive.folder import ArchiveFolder
from tests.plugins.sources.archive.source_system import ArchiveSystem

_HOUR = timedelta(hours=1)
ITEM = TableId("main", "item")


class Archive:
    """An archive of one table, each change an hour after the one before."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.system = ArchiveSystem(folder / "archive", **settings)
        self.clock = datetime(2026, 11, 1, tzinfo=UTC)
        self.create("item")

    def create(self, name: str) -> None:
        columns = (Column("id", INT64, False), Column("name", STRING))
        self._later(lambda: self.system.create_table(name, TableSchema(TableId("main", name), columns, ("id",))))

    def execute(self, *steps: Step, table: TableId = ITEM) -> datetime:
        """One transaction; returns when it was committed."""
        schema = self.described(table)
        self._later(lambda: self.system.execute([(step, schema) for step in steps]))
        return self.clock

    def insert(self, number: int, table: TableId = ITEM) -> datetime:
        return self.execute(Step("insert", table.table, {"rows": [{"id": number, "name": "a"}]}), table=table)

    def rename(self, former: TableId, table: TableId) -> None:
        self._later(lambda: self.system.rename_tables({former: table}))

    def described(self, table: TableId = ITEM) -> TableSchema:
        with self.system.source.create_table_registry() as registry:
            return registry.describe_table(table)

    def find(self, offset: str = "", moment: datetime | None = None) -> str:
        return str(self.system.source.find_start(StartFrom(offset, moment), namespace="default", name="later"))

    def begun(self, offset: str, *columns: str, table: TableId = ITEM) -> TableSchema:
        """The table as a first start has it; with `columns` those are selected."""
        found = self.system.source.find_start(StartFrom(offset), namespace="default", name="later")
        narrowed = frozenset({table} if columns else ())
        schema = self.described(table)
        definition = EventReaderDefinition({}, narrowed=narrowed)
        reader = self.system.source.create_reader(definition, TestSourceContext("later"), CollectingEmitter())
        try:
            return reader.begin_at(found, [schema.select(columns) if columns else schema])[table]
        finally:
            reader.close()

    def refused(self, offset: str, why: str, table: TableId = ITEM) -> str:
        """The position that the refusal names."""
        with pytest.raises(NeedsUserError, match=f"RPL-3563.*{why}") as refused:
            self.begun(offset, table=table)
        assert refused.value.table == str(table)
        return _named(refused.value)

    def _later(self, write: Callable[[], object]) -> None:
        self.clock += _HOUR
        stamp = self.clock.timestamp()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(time, "time", lambda: stamp)
            patched.setattr(time, "time_ns", lambda: int(stamp * 1_000_000_000))
            write()


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path)


def _named(error: HistoryLostError | NeedsUserError) -> str:
    found = re.search(r'"offset": "([^"]+)"', error.hint)
    return found[1] if found else ""


def test_a_time_is_the_position_after_the_last_entry_of_before(archive: Archive) -> None:
    """Changes of structure have no time in an archive: those after the last change of before are read."""
    archive.insert(1)  # 2
    archive.execute(Step("add_column", "item", {"name": "more", "type": "int64"}))  # 3
    there = archive.execute(Step("update", "item", {"where": {"id": 1}, "set": {"name": "b"}}))  # 4
    assert archive.find(moment=there) == "4/0"
    assert archive.find(moment=there - timedelta(seconds=1)) == "4/0"
    assert archive.find(moment=there - _HOUR) == "3/0"
    assert archive.find(moment=there - 2 * _HOUR) == "2/0"
    assert archive.find(moment=there + timedelta(seconds=1)) == "5/0"
    assert archive.begun("4/0").names == ("id", "name", "more")
    assert archive.begun("3/0").names == ("id", "name")


def test_few_manifests_are_read_to_find_a_time(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    times = [archive.insert(number) for number in range(100)]
    names, read = [], ArchiveFolder.read

    def counted(folder: ArchiveFolder, name: str) -> bytes:
        names.append(name)
        return read(folder, name)

    monkeypatch.setattr(ArchiveFolder, "read", counted)
    assert archive.find(moment=times[49]) == "51/0"
    assert len(names) < 25


def test_what_is_no_position_of_the_archive_is_refused(archive: Archive) -> None:
    begun = archive.clock
    archive.insert(1)
    archive.insert(2)
    assert archive.find("4/0") == "4/0", "the end"
    for text, code in (("1200", "RPL-3561"), ("5/0", "RPL-3562"), ("2/2", "RPL-3562"), ("4/1", "RPL-3562")):
        with pytest.raises(NeedsUserError, match=code):
            archive.find(text)
    with pytest.raises(NeedsUserError, match=r"RPL-3562.*has not come"):
        archive.find(moment=datetime.now(UTC) + timedelta(days=1))
    with pytest.raises(HistoryLostError, match="RPL-3554"):
        archive.find(moment=begun)
    archive.system.lose_history()
    with pytest.raises(HistoryLostError, match="RPL-3554") as gone:
        archive.find("2/0")
    assert archive.find(_named(gone.value)) == "3/0"


def test_a_table_that_got_its_name_later_begins_after_that(archive: Archive) -> None:
    archive.insert(1)
    thing = TableId("main", "thing")
    archive.rename(ITEM, thing)
    archive.insert(2, thing)
    later = archive.refused("2/0", "it had another name", thing)
    assert later == "4/0"
    assert archive.begun(later, table=thing).names == ("id", "name")


def test_a_table_that_came_later_begins_after_its_first_entry(archive: Archive) -> None:
    archive.create("note")
    archive.insert(1)
    note = TableId("main", "note")
    later = archive.refused("1/0", "does not have it there", note)
    assert later == "3/0"
    assert archive.begun(later, table=note).names == ("id", "name")


def test_a_table_with_a_hole_begins_after_its_next_copy(archive: Archive) -> None:
    archive.system.add({"kind": "break", "why": "the disk was full", "table": ITEM.to_json()})  # 2
    archive.insert(1)
    assert archive.refused("3/0", "the disk was full") == ""
    archive.system.add(
        {"kind": "copy", "schema": archive.described().to_json(), "files": [], "rows": 0, "table": ITEM.to_json()}
    )
    later = archive.refused("3/0", "the disk was full")
    assert later == "5/0"
    assert archive.begun(later).names == ("id", "name")


def test_selected_columns_are_those_of_there(archive: Archive) -> None:
    archive.execute(Step("add_column", "item", {"name": "more", "type": "int64"}))
    assert archive.begun("3/0", "more").names == ("id", "more")
    with pytest.raises(NeedsUserError, match=r"RPL-3563.*did not have all columns"):
        archive.begun("2/0", "more")
