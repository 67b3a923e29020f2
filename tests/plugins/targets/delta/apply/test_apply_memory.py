"""A transaction of millions of rows is applied in bounded memory (design, I8)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pytest

from replicator_runtime.engine.batching.spill import SpillFile
from replicator_sdk import BatchIdentity, ChangeBatch, Position, TableChanges
from replicator_sdk.datatype import INT64, STRING
from replicator_sdk.event import DMLOperation
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_target_delta.apply.key_lookup import Place
from replicator_target_delta.apply.keyed import KeyedApply
from replicator_target_delta.file_index.file_index import FileIndex
from replicator_target_delta.files.data_file import write_data_file
from replicator_target_delta.files.live_files import DataFile
from replicator_target_delta.files.storage import Storage
from replicator_target_delta.log.table_state import State
from replicator_target_delta.schema.encoding import encode_rows
from replicator_target_delta.schema.metadata_columns import Stamper
from replicator_target_delta.schema.table_definition import TableDefinition
from replicator_target_delta.schema.table_form import TableForm
from replicator_target_delta.schema.types import Layout

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 3_000_000
STEP = 20_000
GROWTH_MB = 320
SCHEMA = TableSchema(TableId("db", "orders"), (Column("id", INT64), Column("text", STRING)), ("id",))
TEXTS = pa.array([f"{n:0200}" for n in range(STEP)])


@pytest.mark.parametrize("case", ["inserts", "updates", "mixed"])
def test_three_million_changes_of_one_transaction_grow_the_process_by_a_bounded_amount(
    case: str, tmp_path: Path
) -> None:
    """In a process of its own, since memory of other tests would be counted as well."""
    done = subprocess.run(
        [sys.executable, "-m", __name__, case, str(tmp_path)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    removed = {"inserts": 0, "updates": ROWS, "mixed": ROWS // 2}[case]
    assert (found["removed"], found["missing"]) == (removed, 0)
    assert found["growth"] < GROWTH_MB


def _rows(ids: np.ndarray[Any, np.dtype[np.int64]]) -> pa.StructArray:
    return pa.StructArray.from_arrays([pa.array(ids), TEXTS], fields=list(SCHEMA.struct))


def _batch(case: str, first: int, order: np.ndarray[Any, np.dtype[np.int64]]) -> ChangeBatch:
    """Inserts of new keys in order; updates of old ones in any order; or insert, update, delete, insert by turns."""
    ids = order[first : first + STEP]
    turn = np.arange(STEP) % 4
    op = np.full(STEP, DMLOperation.INSERT if case == "inserts" else DMLOperation.UPDATE, np.int8)
    if case == "inserts":
        ids = np.arange(first, first + STEP) + ROWS
    elif case == "mixed":
        op = np.array([DMLOperation.INSERT, DMLOperation.UPDATE, DMLOperation.DELETE, DMLOperation.INSERT], np.int8)[
            turn
        ]
        ids = np.where(op == DMLOperation.INSERT, ids + ROWS, ids)
    gone = op == DMLOperation.DELETE
    before = pa.StructArray.from_arrays(
        [pa.array(ids, mask=~gone), pa.nulls(STEP, pa.string())], fields=list(SCHEMA.struct), mask=pa.array(~gone)
    )
    numbers = np.arange(first, first + STEP) + 1
    return ChangeBatch(
        SCHEMA, pa.array(op), _rows(ids), before if gone.any() else None, numbers - 1, sequence_numbers=numbers
    )


def _place(folder: Path) -> Place:
    """A table that holds the keys 0 to `ROWS` - 1, and as much of a session as an apply in threads asks for."""
    metadata = TableDefinition.create(SCHEMA, TableForm()).to_metadata()
    layout = Layout.of(json.loads(metadata["schemaString"]))
    storage = Storage(str(folder))
    files = []
    for start in range(0, ROWS, STEP * 5):
        parts = [
            pa.Table.from_struct_array(_rows(np.arange(s, s + STEP))) for s in range(start, start + STEP * 5, STEP)
        ]
        file = DataFile(write_data_file(storage, encode_rows(pa.concat_tables(parts), layout, {})))
        files.append(file)
    session = cast("SparkSession", SimpleNamespace(sparkContext=SimpleNamespace(master="local[2]")))
    return Place(
        session, State(0, metadata, layout, FileIndex().changed(files, []), None), storage, 32 << 20, soft_deletes=False
    )


def _memory(kind: str) -> int:
    """MB of the process."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(kind)) >> 10


def _measure(case: str, folder: Path) -> None:
    spill = SpillFile(SCHEMA, str(folder))
    order = np.random.default_rng(1).permutation(ROWS)
    for first in range(0, ROWS, STEP):
        spill.write(_batch(case, first, order))
    spill.finish()
    del order
    place = _place(folder / "table")
    pa.default_memory_pool().release_unused()
    pa.system_memory_pool().release_unused()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak counts from here
    start = _memory("VmRSS")
    identity = BatchIdentity(1, 1, 1, ROWS, Position(MemoryOffset(1)))
    changes = TableChanges(SCHEMA, identity, spill.read, rows=ROWS, nbytes=spill.nbytes)
    apply = KeyedApply(place, changes, Stamper({}, "1"))
    files = apply.run()
    json.dump({"growth": _memory("VmHWM") - start, "removed": files.rows_removed, "missing": apply.missing}, sys.stdout)


if __name__ == "__main__":
    _measure(sys.argv[1], Path(sys.argv[2]))
