"""A change of structure as it is stored in lanes and archives."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from replicator_sdk.event import Alter, AlterKind, DDLEvent, DDLOperation
from replicator_sdk.offset import Position
from replicator_sdk.schema import Column, TableId, TableSchema

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from replicator_sdk.offset import Offset

_PLAIN = (str, int, float, bool, type(None))


def event_json(event: DDLEvent) -> dict[str, Any]:
    """The event without the values that an ADD_COLUMN gives to existing rows, unless they are plain in JSON."""
    assert event.position is not None
    return {
        "operation": event.operation.value,
        "table": event.table.to_json(),
        "schema": event.schema and event.schema.to_json(),
        "sequence": event.sequence_number,
        "timestamp": event.source_timestamp and event.source_timestamp.isoformat(),
        "position": event.position.to_json(),
        "alters": [
            {
                "kind": step.kind.value,
                "column": step.column and step.column.to_json(),
                "previous": step.previous and step.previous.to_json(),
                "default": step.default if isinstance(step.default, _PLAIN) else None,
            }
            for step in event.alters
        ],
    }


def event_values(event: DDLEvent) -> bytes:
    """The values that `event_json` leaves out, by the number of their step, as a stream of Arrow."""
    fields = {
        str(number): pa.array([step.default], step.column.type.arrow)
        for number, step in enumerate(event.alters)
        if step.column is not None and not isinstance(step.default, _PLAIN)
    }
    if not fields:
        return b""
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_pydict(fields)
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def event_of(value: Mapping[str, Any], values: bytes, read_offset: Callable[[Mapping[str, bytes]], Offset]) -> DDLEvent:
    """The inverse of `event_json` and `event_values`."""
    position = Position.from_json(value["position"], read_offset)
    steps = [
        Alter(
            AlterKind(step["kind"]),
            step["column"] and Column.from_json(step["column"]),
            step["previous"] and Column.from_json(step["previous"]),
            step["default"],
        )
        for step in value["alters"]
    ]
    if values:
        with pa.ipc.open_stream(values) as reader:
            for number, found in reader.read_all().to_pydict().items():
                steps[int(number)] = replace(steps[int(number)], default=found[0])
    return DDLEvent(
        position.offset,
        DDLOperation(value["operation"]),
        TableId.from_json(value["table"]),
        value["schema"] and TableSchema.from_json(value["schema"]),
        alters=tuple(steps),
        source_timestamp=value["timestamp"] and datetime.fromisoformat(value["timestamp"]),
        sequence_number=value["sequence"],
        position=position,
    )
