"""Debezium's envelopes without schemas: tables told apart first, then each read in its natural shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import Int64s
from replicator_source_kafka.formats.change_rows import tables_of
from replicator_source_kafka.formats.envelope import Envelope
from replicator_source_kafka.formats.format import Poison
from replicator_source_kafka.formats.json_objects import ObjectReader, Objects
from replicator_source_kafka.formats.json_value import loads
from replicator_source_kafka.formats.natural import NaturalReader
from replicator_source_kafka.types.connect_type import ConnectType

_HEAD, _TAIL = b'{"payload":', b"}"
_SOURCE = pa.struct(
    [(name, pa.string()) for name in ("connector", "db", "schema", "table")]
    + [("ts_ms", pa.int64()), ("ts_us", pa.int64())]
)
_FIXED = (
    pa.field("source", _SOURCE),
    pa.field("op", pa.string()),
    pa.field("transaction", pa.struct([("id", pa.string())])),
)
_ROUTE = pa.struct([pa.field("source", _SOURCE), pa.field("op", pa.string())])
_QUIET = ({"ts_ms"}, {"ddl", "databaseName"}, {"tableChanges"}, {"status", "id", "event_count"})
"""Members by which heartbeats, schema changes and transactions are known."""


def plain_envelopes(
    texts: pa.Array,
    index: Int64s,
    key: Mapping[str, str],
    hints: Callable[[str], Mapping[str, str]],
    poison: list[Poison],
) -> list[tuple[Envelope, Objects, Int64s]]:
    """Envelopes by table, as they were read, and which of the records each came from.

    Args:
        texts: The records' values.
        index: Which of the records they are.
        key: The names in the records' keys, and their natural kinds.
        hints: The types the settings give a table's columns.
        poison: Takes what is none of Debezium's.
    """
    routes = ObjectReader(_ROUTE, _HEAD, _TAIL, loads).read(texts)
    poison.extend(Poison(int(index[i]), "RPL-3900", reason) for i, reason in routes.bad)
    op = routes.rows.field("op")
    changes = np.flatnonzero(op.is_valid().to_numpy(zero_copy_only=False))
    for i in np.setdiff1d(np.arange(len(op)), changes):
        place = routes.index[i]
        if not _is_quiet(texts[int(place)].as_py()):
            poison.append(Poison(int(index[place]), "RPL-3910", "is no change of Debezium's: it has no op"))
    found = []
    for table, positions in tables_of(routes.rows.field("source").take(pa.array(changes))):
        places = routes.index[changes[positions]]
        if table is None:
            poison.extend(Poison(int(i), "RPL-3912", "does not name its table") for i in index[places])
            continue
        mine = texts if len(places) == len(texts) else texts.take(pa.array(places))
        reader = NaturalReader(("before", "after"), _FIXED, _HEAD, _TAIL, loads, hints(str(table)), key)
        try:
            rows = reader.read(mine)
        except ValueError as error:
            poison.extend(Poison(int(i), "RPL-3904", f"does not fit columnTypes: {error}") for i in index[places])
            continue
        columns = tuple((name, ConnectType(_base(codec.wire))) for name, codec in rows.codecs.items())
        envelope = Envelope(_connector(rows.objects), columns, rows.codecs, tuple(key), rows.objects.rows.type)
        found.append((envelope, rows.objects, index[places]))
    return found


def _base(wire: pa.DataType) -> str:
    return "object" if pa.types.is_nested(wire) else str(wire)


def _connector(objects: Objects) -> str:
    names = pc.unique(objects.rows.field("source").field("connector").drop_null())
    return str(names[0]) if len(names) else ""


def _is_quiet(text: bytes) -> bool:
    """Whether the record is one that Debezium writes beside changes."""
    value: Any = loads(text)
    if not isinstance(value, dict):
        return False
    return value.keys() == _QUIET[0] or any(members <= value.keys() for members in _QUIET[1:])
