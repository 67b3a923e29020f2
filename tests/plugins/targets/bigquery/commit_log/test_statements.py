"""What the commit log's statements hold, and what is read back."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from replicator_sdk.schema import TableId
from replicator_sdk.target import TableProgress
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_target_bigquery.commit_log.commit import COMMITTED, Commit
from replicator_target_bigquery.commit_log.statements import insert, packed, read_rows, unpacked
from replicator_target_bigquery.config import BigQueryConfig
from replicator_target_bigquery.sql.table_ref import TableRef
from tests.plugins.targets.bigquery.support.changes import at

TABLE = TableId("shop", "customers")
LARGEST_STATEMENT = 1 << 20


@settings(deadline=None)
@given(st.frozensets(st.integers(0, 60)))
def test_chunks_come_back_from_ranges_and_from_the_list_of_an_earlier_version(chunks: frozenset[int]) -> None:
    assert unpacked(json.loads(json.dumps(packed(chunks)))) == chunks
    assert unpacked(sorted(chunks)) == chunks


def test_a_snapshot_of_a_million_chunks_fits_into_a_statement() -> None:
    chunks = frozenset(range(1_000_000)) - {500_000}
    progress = TableProgress(1, 1, at(1), snapshot_chunks=chunks, snapshot_id="plan")
    row = Commit(7, COMMITTED, "space/name", 1, "chunks-plan@7", TABLE, progress, chunks)
    ref = TableRef.of(TABLE, BigQueryConfig(project="p", staging_bucket="b"))
    assert len(insert(ref, row)) < LARGEST_STATEMENT / 100


def test_the_progress_of_an_earlier_version_is_read() -> None:
    progress = TableProgress(1, 1, at(1), snapshot_chunks=frozenset({0, 1, 5}), snapshot_id="plan")
    stored = {
        "revision": 1, "kind": COMMITTED, "owner": "o", "epoch": 1, "batch": "b", "note": "",
        "source": json.dumps(TABLE.to_json()), "progress": json.dumps(progress.to_json()), "chunks": "[0, 1, 5]",
    }  # fmt: skip
    state = read_rows([stored], MemoryOffset.from_fields)
    assert state.last is not None
    assert (state.last.chunks, state.progress) == (frozenset({0, 1, 5}), progress)
