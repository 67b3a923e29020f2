"""Reads Debezium's envelopes without schemas: grouped by table, then with the types that their values have."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import Int64s
from replicator_source_kafka.formats.debezium_metadata import is_metadata_object
from replicator_source_kafka.formats.envelope.change_rows import tables_of
from replicator_source_kafka.formats.envelope.envelope_schema import Envelope
from replicator_source_kafka.formats.format import Poison
from replicator_source_kafka.formats.json_records.inferred_json import InferredReader
from replicator_source_kafka.formats.json_records.json_objects import ObjectReader, Objects
from replicator_source_kafka.formats.json_records.json_value import loads
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


def plain_envelopes(
    texts: pa.Array,
    index: Int64s,
    key: Mapping[str, str],
    hints: Callable[[str], Mapping[str, str]],
    poison: list[Poison],
) -> list[tuple[Envelope, Objects, Int64s]]:
    """Envelopes by table, as they were read, and the indexes of their records.

    Args:
        texts: The records' values.
        index: The indexes of the records.
        key: The names in the records' keys, and the JSON kinds of their values.
        hints: Returns the configured types of a table's columns.
        poison: Receives records that are not Debezium's.
    """
    routes = ObjectReader(_ROUTE, _HEAD, _TAIL, loads).read(texts)
    poison.extend(Poison(int(index[i]), "RPL-3900", reason) for i, reason in routes.bad)
    op = routes.rows.field("op")
    changes = np.flatnonzero(op.is_valid().to_numpy(zero_copy_only=False))
    for i in np.setdiff1d(np.arange(len(op)), changes):
        position = routes.index[i]
        if not is_metadata_object(loads(texts[int(position)].as_py())):
            poison.append(Poison(int(index[position]), "RPL-3910", "is not a change of Debezium's: it has no op"))
    found = []
    for table, positions in tables_of(routes.rows.field("source").take(pa.array(changes))):
        places = routes.index[changes[positions]]
        if table is None:
            poison.extend(Poison(int(i), "RPL-3912", "does not name its table") for i in index[places])
            continue
        mine = texts if len(places) == len(texts) else texts.take(pa.array(places))
        reader = InferredReader(("before", "after"), _FIXED, _HEAD, _TAIL, loads, hints(str(table)), key)
        try:
            rows = reader.read(mine)
        except ValueError as error:
            poison.extend(
                Poison(int(i), "RPL-3904", f"does not fit columnTypes: {error}", table) for i in index[places]
            )
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
