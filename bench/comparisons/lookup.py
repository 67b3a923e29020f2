"""How long two updates take in a table of 50,000 files, the keys at both ends of it: us, and `deltalake` merging them.

The files are written once for both sides, four rows each, with statistics; their keys are texts that follow one another. Both
logs are made by hand, in one commit, as 50,000 commits would take an hour.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bench.comparisons.turns import Plan, scratch
from bench.measure import Book, Measured
from replicator_sdk.datatype import INT64, STRING
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_target_delta.files.statistics import file_statistics
from tests.plugins.targets.changes import batch, insert, update
from tests.plugins.targets.delta.lake import Lake
from tests.services.spark.session import settings

LOOKUP: Final = "lookup"
PEER: Final = "deltalake"
FILES: Final = 50_000
WHAT: Final = f"s, two updates in {FILES:,} files"
_ROWS: Final = 4
_TIMES: Final = 3
_TABLE: Final = TableSchema(
    TableId("bench", "customers"), (Column("id", STRING, nullable=False), Column("visits", INT64)), ("id",)
)


def lookup(plan: Plan, book: Book) -> None:
    """The median of three pairs of updates a round; the first pair, which reads the log, is not counted."""
    session = SparkSession.builder.config(map={**settings(), "spark.master": "local[2]"}).getOrCreate()
    try:
        for number in range(plan.rounds):
            with scratch(plan.folder / "lookup") as folder:
                for side, updating in _sides(session, folder):
                    updating(0)
                    seconds = statistics.median(_timed(updating, turn) for turn in range(1, _TIMES + 1))
                    book.add([Measured(LOOKUP, side, WHAT, seconds, number)])
    finally:
        session.stop()


def _timed(updating: Callable[[int], None], turn: int) -> float:
    began = time.perf_counter()
    updating(turn)
    return time.perf_counter() - began


def _sides(session: SparkSession, folder: Path) -> Iterator[tuple[str, Callable[[int], None]]]:
    """Both sides on tables of their own with the same files; one after the other."""
    lake = Lake(folder / "lake", session)
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert({"id": "a first one", "visits": 0}, _TABLE)]))
    names = [column.physical for column in consumer._table(_TABLE.table).begin().state.layout.columns]  # noqa: SLF001
    ours, peers = lake.path(_TABLE.table), folder / "peer"
    adds = list(_files(ours, peers, names))
    _append(ours / "_delta_log" / f"{1:020}.json", adds)

    def ours_updating(turn: int) -> None:
        rows = [update({"id": key, "visits": turn}, _TABLE) for key in _keys(turn)]
        lake_consumer.apply_batch(batch(turn + 2, rows))

    lake_consumer = lake.consumer()
    lake_consumer.progress(_TABLE.table)
    lake_consumer._table(_TABLE.table).log.checkpoint(0)  # noqa: SLF001 - as maintenance does
    yield "ours", ours_updating
    _append(peers / "_delta_log" / f"{0:020}.json", [*_beginning(names), *adds])
    deltalake.DeltaTable(str(peers)).create_checkpoint()

    def peers_updating(turn: int) -> None:
        source = pa.table({names[0]: pa.array(_keys(turn)), names[1]: pa.array([turn, turn], pa.int64())})
        table = deltalake.DeltaTable(str(peers))
        merge = table.merge(source, f"t.`{names[0]}` = s.`{names[0]}`", source_alias="s", target_alias="t")
        merge.when_matched_update({f"`{names[1]}`": f"s.`{names[1]}`"}).execute()

    yield PEER, peers_updating


def _keys(turn: int) -> list[str]:
    return [_key(turn * _ROWS), _key((FILES - turn) * _ROWS - 1)]


def _key(number: int) -> str:
    return f"customer-{number:012}"


def _files(ours: Path, peers: Path, names: list[str]) -> Iterator[dict[str, Any]]:
    """Write the data files; each has a name in both folders."""
    (peers / "_delta_log").mkdir(parents=True)
    for number in range(FILES):
        first = number * _ROWS
        values = [pa.array([_key(first + i) for i in range(_ROWS)]), pa.array([0] * _ROWS, pa.int64())]
        rows = pa.Table.from_arrays(values, names=names[:2])
        name = f"part-{number:08}.snappy.parquet"
        pq.write_table(rows, ours / name, store_schema=False)
        (peers / name).hardlink_to(ours / name)
        yield {
            "add": {
                "path": name,
                "partitionValues": {},
                "size": (ours / name).stat().st_size,
                "modificationTime": 1,
                "dataChange": True,
                "stats": file_statistics(dict(zip(rows.column_names, rows.columns, strict=True)), _ROWS),
            }
        }


def _beginning(names: list[str]) -> list[dict[str, Any]]:
    """The first actions of the peer's log."""
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in zip(names, ("string", "long"), strict=False)
    ]
    metadata = {
        "id": "5a0d7c52-1111-4222-8333-944445555666",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {},
        "createdTime": 1,
    }
    return [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]


def _append(commit: Path, actions: list[dict[str, Any]]) -> None:
    commit.write_text("\n".join(json.dumps(action) for action in actions) + "\n")
