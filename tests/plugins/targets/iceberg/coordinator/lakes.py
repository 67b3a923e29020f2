"""A consumer that commits when it is asked to, and what is at the target then."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from replicator_sdk.batch import TableChanges
from replicator_sdk.event import DDLOperation
from replicator_sdk.schema import TableId, TableSchema
from replicator_target_iceberg.apply.keyed import Place
from replicator_target_iceberg.apply.row_changes import RowChanges
from replicator_target_iceberg.apply.table_apply import TableApply
from replicator_target_iceberg.coordinator.consumer import CoordinatedConsumer
from replicator_target_iceberg.naming import identifier
from tests.plugins.targets.changes import KEYED, TABLE, ddl
from tests.plugins.targets.iceberg.warehouse import Warehouse

ONCE_AN_HOUR: Final = 3_600_000
OTHER: Final = TableSchema(TableId("shop", "orders"), KEYED.columns, KEYED.primary_key)


def started(lake: Warehouse, *schemas: TableSchema, epoch: int = 1) -> CoordinatedConsumer:
    """A consumer whose tables are there."""
    consumer = lake.consumer(epoch=epoch)
    assert isinstance(consumer, CoordinatedConsumer)
    for schema in schemas or (KEYED,):
        consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE, schema))
    return consumer


def files(lake: Warehouse, table: TableId = TABLE) -> set[Path]:
    """All data files and delete files that are there, named by a snapshot or not."""
    name = identifier(table)
    folder = lake.folder / name.namespace / name.name / "data"
    return {path for path in folder.glob("*") if not path.name.startswith(".")} if folder.exists() else set()


def shown(lake: Warehouse) -> dict[int, tuple[str | None, str | None]]:
    """The rows of the keyed table by their keys."""
    return {r["id"]: (r["name"], r["note"]) for r in lake.read_table(KEYED)}


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    until = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


def take(consumer: CoordinatedConsumer, changes: TableChanges) -> None:
    """Without starting the clock's thread."""
    consumer._of(changes.table).take(changes)


@contextmanager
def written_slowly(
    monkeypatch: pytest.MonkeyPatch, consumer: CoordinatedConsumer, changes: TableChanges
) -> Iterator[Any]:
    """Another thread gives the consumer these changes; their files are not written before the event is set, which the block gets."""
    may_go_on, begun, write = threading.Event(), threading.Event(), TableApply.write

    def waits(self: TableApply, place: Place, given: TableChanges) -> RowChanges:
        if given is changes:
            begun.set()
            assert may_go_on.wait(120)
        return write(self, place, given)

    monkeypatch.setattr(TableApply, "write", waits)
    thread = threading.Thread(target=consumer.apply_batch, args=(changes,))
    thread.start()
    assert begun.wait(120)
    try:
        yield may_go_on
    finally:
        may_go_on.set()
        thread.join(120)
        assert not thread.is_alive()
