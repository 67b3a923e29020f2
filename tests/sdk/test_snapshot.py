"""Chunks keep their bounds, and become a DataFrame only when Spark asks."""

from __future__ import annotations

import json

from replicator_sdk import AcceptingAssessor, FixedTables, SnapshotChunk, Support
from replicator_sdk.testing.histories.history import load_case
from replicator_sdk.testing.in_memory.source import MemoryChunkReader

SCHEMA = load_case("seed_transactions").tables["customers"]


def test_a_chunk_is_read_back_from_its_json_form() -> None:
    chunk = SnapshotChunk(3, {"after": 5, "up_to": None, "names": ["a"]}, 17)
    assert SnapshotChunk.from_json(json.loads(json.dumps(chunk.to_json()))) == chunk


def test_a_chunk_readers_text_shows_no_rows() -> None:
    assert "alice" not in repr(MemoryChunkReader(SCHEMA, [{"id": 1, "name": "alice"}]))


def test_small_plugins_get_a_registry_and_an_assessor() -> None:
    with FixedTables(SCHEMA) as tables, AcceptingAssessor() as assessor:
        assert [summary.table for summary in tables.list_tables()] == [SCHEMA.table]
        assert tables.describe_table(SCHEMA.table) is SCHEMA
        found = assessor.assess_table(SCHEMA)
        assert [(c.name, c.support) for c in found.columns] == [("id", Support.YES), ("name", Support.YES)]
        assert assessor.assess().findings == ()
