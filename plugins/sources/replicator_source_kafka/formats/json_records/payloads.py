"""Reads payloads of records, and keys, with or without an embedded schema, into structs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.datatype import Decimal
from replicator_source_kafka.formats.json_records.decimal_format import under
from replicator_source_kafka.formats.json_records.embedded_schema import HEAD, Run, may_have_schema, member
from replicator_source_kafka.formats.json_records.json_objects import ObjectReader, Objects
from replicator_source_kafka.formats.json_records.plain_keys import key_payload
from replicator_source_kafka.types.column_codec import Codec


def read_objects(wire: pa.StructType, run: Run, texts: pa.Array, strict: bool = False) -> Objects:
    """The payloads of records with an embedded schema; `strict` as in `ObjectReader`."""
    head = HEAD if run.headless else b""
    return ObjectReader(
        wire, head, b"", lambda text: member(_whole(text, run.headless), "payload"), strict=strict
    ).read(texts)


def _whole(text: bytes, headless: bool) -> bytes:
    """A record with its head restored, without the content of the schema."""
    return b'{"schema":{},"payload":' + text if headless else text


def keys_as(wire: pa.StructType, keys: pa.Array) -> pa.StructArray:
    """Keys, with or without a schema, as structs; null for a key that is not of the type `wire`."""
    embedded = bool(len(keys)) and all(may_have_schema(keys).tolist())
    head, tail = (b"", b"") if embedded else (HEAD, b"}")
    found = ObjectReader(wire, head, tail, key_payload).read(keys)
    order = np.full(len(keys), -1)
    order[found.index] = np.arange(len(found.index))
    if decimals := [member.name for member in wire if pa.types.is_decimal(member.type)]:
        # Arrow reads digits in quotes as a number, and they may be base64.
        quoted = pc.match_substring_regex(keys, under(decimals, '"')).fill_null(False)
        order[quoted.to_numpy(zero_copy_only=False)] = -1
    return found.rows.take(pa.array(order, mask=order < 0))


def keys_by(codecs: Mapping[str, Codec], keys: pa.Array) -> pa.StructArray:
    """As `keys_as`, with the wire types of codecs. If no key can be read so, decimals are read as numbers."""
    wire = pa.struct([pa.field(name, codec.wire) for name, codec in codecs.items()])
    found = keys_as(wire, keys)
    numeric = pa.struct(
        [pa.field(n, c.kind.arrow if isinstance(c.kind, Decimal) else c.wire) for n, c in codecs.items()]
    )
    if numeric == wire or found.null_count < len(found):
        return found
    return keys_as(numeric, keys)
