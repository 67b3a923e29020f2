"""Rows of prepared transactions wait for their commit, and reading begins early enough to find them again."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from replicator_sdk import ChangeBatch, TableId, TableSchema
from replicator_sdk.datatype import INT64
from replicator_sdk.errors import DataError, HistoryLostError
from replicator_sdk.schema import Column
from replicator_source_mysql.offset import MySqlOffset
from replicator_source_mysql.streaming import xa_transactions as prepared
from replicator_source_mysql.streaming.xa_transactions import PreparedTransactions

_SCHEMA = TableSchema(TableId("shop", "t"), (Column("id", INT64),), ("id",))
_FIRST, _SECOND = (1, b"a", b""), (1, b"b", b"")


def batch(*ids: int) -> ChangeBatch:
    row = pa.StructArray.from_arrays([pa.array(ids, pa.int64())], fields=list(_SCHEMA.arrow))
    return ChangeBatch(_SCHEMA, pa.array([1] * len(ids), pa.int8()), row, None, np.arange(len(ids)))


def place(position: int) -> MySqlOffset:
    return MySqlOffset("b.000001", position)


def held(transactions: PreparedTransactions, xid: tuple[int, bytes, bytes], at: int, *ids: int) -> None:
    transactions.begin(place(at))
    transactions.hold(batch(*ids))
    assert transactions.current is not None
    transactions.current.count += len(ids)
    transactions.prepare(xid)


def test_rows_come_with_the_commit_and_are_numbered_from_there() -> None:
    transactions = PreparedTransactions()
    held(transactions, _FIRST, 100, 1, 2)
    rows = transactions.commit(_FIRST, "b.000001:200")
    assert rows.count == 2
    assert [b.ordinals.tolist() for b in rows.numbered(5)] == [[5, 6]]
    assert transactions.earliest is None


def test_reading_resumes_where_the_earliest_that_is_open_began() -> None:
    transactions = PreparedTransactions()
    held(transactions, _FIRST, 100, 1)
    held(transactions, _SECOND, 300, 2)
    assert transactions.earliest == place(100)
    transactions.roll_back(_FIRST)
    assert transactions.earliest == place(300)


def test_a_commit_of_something_prepared_before_the_start_is_refused() -> None:
    with pytest.raises(HistoryLostError, match="RPL-3795"):
        PreparedTransactions().commit(_FIRST, "b.000001:200")


def test_more_than_fits_into_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "_HELD_BYTES", 50)
    with pytest.raises(DataError, match="RPL-3794"):
        held(PreparedTransactions(), _FIRST, 100, *range(10))
