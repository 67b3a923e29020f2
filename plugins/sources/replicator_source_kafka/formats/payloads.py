"""Payloads of records and their keys, with or without an embedded schema, as structs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from replicator_source_kafka.formats.embedded_schema import HEAD, Run, may_have_schema, member
from replicator_source_kafka.formats.json_objects import ObjectReader, Objects
from replicator_source_kafka.formats.plain_keys import key_payload


def read_objects(wire: pa.StructType, run: Run, texts: pa.Array) -> Objects:
    """The payloads of records with an embedded schema."""
    head = HEAD if run.headless else b""
    return ObjectReader(wire, head, b"", lambda text: member(_whole(text, run.headless), "payload")).read(texts)


def _whole(text: bytes, headless: bool) -> bytes:
    """A record as it was, but for its schema."""
    return b'{"schema":{},"payload":' + text if headless else text


def keys_as(wire: pa.StructType, keys: pa.Array) -> pa.StructArray:
    """Keys, with or without a schema, as structs; null for one that cannot be read so."""
    embedded = bool(len(keys)) and all(may_have_schema(keys).tolist())
    head, tail = (b"", b"") if embedded else (HEAD, b"}")
    found = ObjectReader(wire, head, tail, key_payload).read(keys)
    order = np.full(len(keys), -1)
    order[found.index] = np.arange(len(found.index))
    return found.rows.take(pa.array(order, mask=order < 0))
