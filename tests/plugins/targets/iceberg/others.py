"""What other programs do to the tables, by Iceberg's library alone and with none of this target's properties."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from replicator_sdk.schema import TableId
from replicator_target_iceberg.jvm import Catalog
from replicator_target_iceberg.log.change import Change
from replicator_target_iceberg.naming import identifier
from tests.plugins.targets.changes import TABLE
from tests.plugins.targets.iceberg.warehouse import Warehouse


def foreign(lake: Warehouse, step: Callable[[Any, Catalog], None], table: TableId = TABLE) -> None:
    """Have another program commit: `step` is given Java's table, and the catalog."""
    catalog = Catalog(lake.spark(), lake.config)
    operations = catalog.operations(identifier(table))
    step(catalog.jvm[".BaseTable"](operations, "t"), catalog)
    catalog.close()


def compacts(table: Any, _: Catalog) -> None:
    """A commit that says nothing of how far the table is, such as a compaction."""
    table.newAppend().commit()


def expires(table: Any, _: Catalog) -> None:
    """All snapshots are deleted but the current one, and those that a tag or a branch names."""
    table.expireSnapshots().expireOlderThan(2**62).retainLast(1).commit()


def compacts_and_expires(table: Any, catalog: Catalog) -> None:
    """Both, one after the other."""
    compacts(table, catalog)
    expires(table, catalog)


def before_publishing(monkeypatch: pytest.MonkeyPatch, step: Callable[[], object]) -> None:
    """Do something once, after a commit has begun with a version, and its files are written, and before it is published."""
    stamp = Change.stamp

    def meanwhile(self: Change, properties: Mapping[str, str]) -> None:
        monkeypatch.setattr(Change, "stamp", stamp)
        step()
        stamp(self, properties)

    monkeypatch.setattr(Change, "stamp", meanwhile)
