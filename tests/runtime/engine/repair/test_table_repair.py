"""A repair leaves alone what the target has on purpose and the source has not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from replicator_runtime.engine.repair.table_repair import TableRepair
from replicator_runtime.engine.tables.table_store import TableRecord
from replicator_runtime.engine.verification.verdict import KEY
from replicator_sdk import TableId


@pytest.mark.parametrize("keeps_rows", [True, False])
def test_rows_that_an_operator_has_kept_when_the_source_truncated_them_are_not_deleted(keeps_rows: bool) -> None:
    """What follows from it at the target is in `test_rows.py`."""
    pipeline = SimpleNamespace(selection=SimpleNamespace(matches=lambda _: None))
    lifecycle: Any = SimpleNamespace(run=SimpleNamespace(pipeline=pipeline))
    record = TableRecord(TableId("shop", "orders"), keeps_rows=keeps_rows)
    repair = TableRepair(lifecycle, record, lambda *_: np.zeros(0, KEY))
    assert ("TRUNCATE_TABLE" in repair._left_out) is keeps_rows
