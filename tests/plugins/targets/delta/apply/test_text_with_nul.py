"""NUL bytes in text arrive as they are, and keys that differ in them only are different keys."""

from __future__ import annotations

from replicator_sdk.datatype import STRING
from replicator_sdk.schema import Column, TableId, TableSchema
from tests.plugins.targets.changes import batch, delete, insert, update
from tests.plugins.targets.delta.lake import Lake

SCHEMA = TableSchema(TableId("shop", "words"), (Column("word", STRING), Column("note", STRING)), ("word",))


def test_text_with_nul_bytes_arrives_and_is_found_as_a_key(lake: Lake) -> None:
    words = ["a", "a\0", "a\0b", "\0", ""]
    consumer = lake.consumer()
    for number, word in enumerate(words, 1):
        consumer.apply_batch(batch(number, [insert({"word": word, "note": f"\0{number}\0"}, SCHEMA)]))
    consumer.apply_batch(batch(6, [update({"word": "a\0", "note": "x\0y"}, SCHEMA), delete({"word": "a"}, SCHEMA)]))
    consumer.apply_batch(batch(7, [update({"word": "\0\0"}, SCHEMA, before={"word": "\0"})]))
    wanted = {"a\0": "x\0y", "a\0b": "\x003\0", "\0\0": "\x004\0", "": "\x005\0"}
    rows = lake.read_table(SCHEMA)
    assert (len(rows), {r["word"]: r["note"] for r in rows}) == (4, wanted)
    by_spark = lake.spark().read.format("delta").load(str(lake.path(SCHEMA.table))).collect()
    assert {r["word"]: r["note"] for r in by_spark} == wanted
