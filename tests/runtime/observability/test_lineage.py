"""Lineage is the newest column mapping of each table and target."""

from __future__ import annotations

import json

from replicator_runtime.observability.lineage import Lineage
from replicator_sdk import TableId

ORDERS, ITEMS = TableId("shop", "orders"), TableId("shop", "items", "public")


def test_the_newest_mapping_of_each_table_and_target_is_kept() -> None:
    lineage = Lineage()
    columns = {"id": "id", "name": "name"}
    lineage.record(ORDERS, "delta:/x/orders", columns)
    lineage.record(ITEMS, "delta:/x/items", {"id": "id"})
    columns["name"] = "changed by the caller afterwards"
    lineage.record(ITEMS, "delta:/x/items", {"id": "key"})
    assert lineage.snapshot() == [
        {"table": ITEMS.to_json(), "target": "delta:/x/items", "columns": {"id": "key"}},
        {"table": ORDERS.to_json(), "target": "delta:/x/orders", "columns": {"id": "id", "name": "name"}},
    ]
    assert json.dumps(lineage.snapshot())
