"""Records that cannot be read: an error, or rows of the quarantine table."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from replicator_sdk.datatype import BINARY, INSTANT, INT32, INT64, STRING
from replicator_sdk.errors import DataError, NeedsUserError
from replicator_sdk.event import DMLOperation
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.formats.format import Part, Poison
from replicator_source_kafka.records import Records

TABLE: Final = TableId("_replicator", "kafka_quarantine")
SCHEMA: Final = TableSchema(
    TABLE,
    (
        Column("topic", STRING, nullable=False, source_type="string"),
        Column("partition", INT32, nullable=False, source_type="int32"),
        Column("offset", INT64, nullable=False, source_type="int64"),
        Column("timestamp", INSTANT, source_type="timestamp"),
        Column("key", BINARY, source_type="bytes"),
        Column("value", BINARY, source_type="bytes"),
        Column("code", STRING, source_type="string"),
        Column("reason", STRING, source_type="string"),
    ),
    ("topic", "partition", "offset"),
)
"""The table with one row per unreadable record; a record always has the same key."""
_BY_SETTINGS: Final = {
    "RPL-3909": "have deletes written with a value that has the field tableField, and what operationField says of a delete",
    "RPL-3918": "add a rule to routes that takes it, without a table where such records are to be passed over",
    "RPL-3919": "name the value of operationField in operations, or fix the writer of the topic",
}
"""What to do about records that the settings do not provide for."""


def check_selected(config: KafkaConfig, tables: Container[TableId]) -> None:
    """Check that the quarantine table is selected if the settings need it.

    Raises:
        NeedsUserError: When `onPoison` is `quarantine` and the pipeline does not select the table.
    """
    if config.on_poison == "quarantine" and TABLE not in tables:
        raise NeedsUserError(
            "onPoison is quarantine, and the pipeline does not select the quarantine table",
            code="RPL-3959",
            table=str(TABLE),
            hint=f"add {TABLE} to the pipeline's tables, or set onPoison to stop",
        )


def refuse(records: Records, poison: Poison, table: TableId | None) -> DataError:
    """The error of a record that cannot be read: that of its table, where it is known, or of all tables."""
    return DataError(
        f"a record cannot be read: {poison.reason}",
        code=poison.code,
        table=None if table is None else str(table),
        position=records.position(poison.index),
        hint=advice(poison.code),
    )


def advice(code: str) -> str:
    """What to do about a record that cannot be read, by the code of what is wrong with it."""
    return (
        f"{_BY_SETTINGS.get(code, 'fix the writer of the topic')}; to go on without such records, set onPoison to quarantine and add {TABLE} to"
        " the pipeline's tables, which then stores them"
    )


def rows_of(records: Records, poison: Sequence[Poison]) -> Part:
    """The records as rows of the quarantine table."""
    poison = list({p.index: p for p in poison}.values())  # a record may be one of several tables
    index = np.array([p.index for p in poison], np.int64)
    timestamp = records.timestamp[index]
    columns = [
        pa.array([records.topic] * len(index), pa.string()),
        pa.array(np.full(len(index), records.partition, np.int32)),
        pa.array(records.offset[index]),
        pa.array(timestamp * 1000, mask=timestamp < 0).cast(INSTANT.arrow),
        records.key.take(pa.array(index)).cast(pa.binary()),
        records.value.take(pa.array(index)).cast(pa.binary()),
        pa.array([p.code for p in poison], pa.string()),
        pa.array([p.reason for p in poison], pa.string()),
    ]
    return Part(
        schema=SCHEMA,
        index=index,
        op=pa.array(np.full(len(index), int(DMLOperation.INSERT), np.int8)),
        row=pa.StructArray.from_arrays(columns, fields=list(SCHEMA.arrow)),
        before=None,
        before_is_full=False,
        timestamps=np.where(timestamp < 0, -1, timestamp * 1000),
    )
