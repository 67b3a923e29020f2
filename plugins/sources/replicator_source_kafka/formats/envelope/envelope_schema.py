"""The schema of Debezium's change envelope: columns, key and types of a table."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from replicator_source_kafka.types.column_codec import Codec
from replicator_source_kafka.types.connect_type import ConnectType
from replicator_source_kafka.types.standard_types import codec_of

_CONNECTOR = re.compile(r"^io\.debezium\.connector\.([a-z0-9]+)\.")
_SOURCE_TEXTS, _SOURCE_NUMBERS = ("db", "schema", "table"), ("ts_us", "ts_ms")


class NotAnEnvelope(ValueError):  # noqa: N818 - it describes the record, which becomes poison
    """The schema is not that of a change of Debezium's."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """A compiled envelope schema. Its records are read as `wire`; columns are converted by `codecs`.

    Attributes:
        connector: `postgresql`, `mysql`, …; empty if the schema does not contain it.
        columns: The row's fields, in order.
        codecs: The codec of each.
        key: Names of the key's columns; empty without a key.
        wire: The struct to read a record's payload with.
    """

    connector: str
    columns: tuple[tuple[str, ConnectType], ...]
    codecs: dict[str, Codec]
    key: tuple[str, ...]
    wire: pa.StructType


MakeCodec = Callable[[str, ConnectType, str], Codec]
"""Returns the codec of a column, by its name, its type and the connector."""


def _default_codec(_name: str, kind: ConnectType, connector: str) -> Codec:
    return codec_of(kind, connector)


def compile_envelope(
    kind: ConnectType, key: tuple[str, ...], codec: MakeCodec = _default_codec, connector: str = ""
) -> Envelope:
    """Compile the envelope schema `kind`.

    Args:
        kind: The schema.
        key: The names in the records' keys.
        codec: Returns the codec of a column.
        connector: Debezium's connector, used if the schema does not contain it.

    Raises:
        NotAnEnvelope: When the schema is not that of an envelope.
    """
    row, source = kind.get("after") or kind.get("before"), kind.get("source")
    if kind.base != "struct" or row is None or source is None or kind.get("op") is None or not row.fields:
        raise NotAnEnvelope("is not a change of Debezium's: its schema has no op, source and after")
    if missing := [name for name in key if row.get(name) is None]:
        raise NotAnEnvelope(f"has a key with {', '.join(missing)}, which its row lacks")
    found = _CONNECTOR.match(source.name)
    connector = found.group(1) if found else connector
    codecs = {name: codec(name, field, connector) for name, field in row.fields}
    return Envelope(connector, row.fields, codecs, key, _wire(codecs, key, kind))


def _wire(codecs: dict[str, Codec], key: tuple[str, ...], kind: ConnectType) -> pa.StructType:
    """The struct to read. If the table has a key, only the key of the row before is read."""
    source, transaction = kind.get("source"), kind.get("transaction")
    source_fields = [
        pa.field(name, column_type)
        for names, column_type in ((_SOURCE_TEXTS, pa.string()), (_SOURCE_NUMBERS, pa.int64()))
        for name in names
        if source is not None and source.get(name) is not None
    ]
    fields = [
        pa.field("before", pa.struct([pa.field(n, c.wire) for n, c in codecs.items() if not key or n in key])),
        pa.field("after", pa.struct([pa.field(n, c.wire) for n, c in codecs.items()])),
        pa.field("source", pa.struct(source_fields)),
        pa.field("op", pa.string()),
    ]
    if transaction is not None and transaction.get("id") is not None:
        fields.append(pa.field("transaction", pa.struct([pa.field("id", pa.string())])))
    return pa.struct(fields)
