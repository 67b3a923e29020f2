"""Avro records with a schema registry: the id in front, the datum behind it."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import Int64s
from replicator_sdk.errors import NeedsUserError
from replicator_source_kafka.formats.format import Poison
from replicator_source_kafka.formats.json_objects import Objects
from replicator_source_kafka.formats.json_value import fit
from replicator_source_kafka.formats.schema_registry import SchemaRegistry, UnknownSchema
from replicator_source_kafka.types.avro_type import avro_connect_type, raw_wire, without_logical_types
from replicator_source_kafka.types.column_codec import needs_slow_reader
from replicator_source_kafka.types.connect_type import ConnectType

_LONGEST = 2**31 - 1
_BROKEN = (EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError, struct.error)


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A schema of the registry's.

    Attributes:
        identity: Its id.
        kind: The type it describes.
        parsed: What fastavro reads with.
    """

    identity: int
    kind: ConnectType
    parsed: Any


@dataclass(frozen=True, slots=True)
class AvroRun:
    """Records with one schema.

    Attributes:
        schema: The schema.
        positions: Which of the values.
        data: The values without their ids.
    """

    schema: AvroSchema
    positions: Int64s
    data: pa.Array


@dataclass(slots=True)
class AvroSchemas:
    """Groups records by their schemas' ids, in Confluent's layout (a zero byte, four bytes) and Apicurio's (eight)."""

    registry: SchemaRegistry
    known: dict[int, AvroSchema] = field(default_factory=dict)

    def runs(self, values: pa.Array, index: Int64s, poison: list[Poison]) -> Iterator[AvroRun]:
        """The records with one schema each; `values`, without NULL, are those at `index`, for `poison`."""
        heads = pc.binary_slice(values, 0, 5).dictionary_encode()
        places = heads.indices.to_numpy()
        for code, head in enumerate(heads.dictionary.to_pylist()):
            positions = np.flatnonzero(places == code)
            mine = values.take(pa.array(positions))
            if len(head) < 5 or head[0] != 0:
                poison.extend(Poison(int(i), "RPL-3930", "does not begin with a schema id") for i in index[positions])
            elif head == b"\0\0\0\0\0":
                # No registry gives the id 0: these are the upper four bytes of Apicurio's eight.
                yield from self._of_eight(mine, positions, index, poison)
            else:
                yield from self._run(int.from_bytes(head[1:], "big"), mine, positions, 5, index, poison)

    def _of_eight(self, values: pa.Array, positions: Int64s, index: Int64s, poison: list[Poison]) -> Iterator[AvroRun]:
        heads = pc.binary_slice(values, 5, 9).dictionary_encode()
        places = heads.indices.to_numpy()
        for code, head in enumerate(heads.dictionary.to_pylist()):
            some = np.flatnonzero(places == code)
            mine = values.take(pa.array(some))
            yield from self._run(int.from_bytes(head, "big"), mine, positions[some], 9, index, poison)

    def _run(
        self, identity: int, values: pa.Array, positions: Int64s, width: int, index: Int64s, poison: list[Poison]
    ) -> Iterator[AvroRun]:
        try:
            schema = self._schema(identity)
        except UnknownSchema:
            reason = f"has the schema id {identity}, which the registry does not know"
        except ValueError as error:
            reason = str(error)
        else:
            yield AvroRun(schema, positions, pc.binary_slice(values, width, _LONGEST))
            return
        poison.extend(Poison(int(i), "RPL-3930", reason) for i in index[positions])

    def _schema(self, identity: int) -> AvroSchema:
        if identity not in self.known:
            answer = self.registry.schema(identity)
            if answer.get("schemaType", "AVRO") != "AVRO":
                raise ValueError(f"has a schema of the kind {answer['schemaType']}, not Avro")
            named: dict[str, Any] = {}
            self._references(answer, named)
            parsed = _fastavro().parse_schema(json.loads(answer["schema"]), named_schemas=named, expand=True)
            parsed = {k: v for k, v in parsed.items() if not k.startswith("__")} if isinstance(parsed, dict) else parsed
            plain = _fastavro().parse_schema(without_logical_types(_once(parsed, set())))
            self.known[identity] = AvroSchema(identity, avro_connect_type(_once(parsed, set())), plain)
        return self.known[identity]

    def _references(self, answer: dict[str, Any], named: dict[str, Any]) -> None:
        for reference in answer.get("references") or ():
            found = self.registry.version(reference["subject"], reference["version"])
            self._references(found, named)
            _fastavro().parse_schema(json.loads(found["schema"]), named_schemas=named)


def _once(schema: Any, met: set[str]) -> Any:
    """An expanded schema with every name defined once, at its first place."""
    if isinstance(schema, list):
        return [_once(s, met) for s in schema]
    if not isinstance(schema, dict):
        return schema
    if "name" in schema and schema.get("type") in {"record", "enum", "fixed", "error"}:
        if schema["name"] in met:
            return schema["name"]
        met.add(schema["name"])
    return {
        k: [{**f, "type": _once(f["type"], met)} for f in v]
        if k == "fields"
        else _once(v, met)
        if k in {"type", "items", "values"}
        else v
        for k, v in schema.items()
        if not k.startswith("__")
    }


def read_avro(schema: AvroSchema, wire: pa.StructType, data: pa.Array) -> Objects:
    """Datums as structs of `wire` (as it is for JSON). One call of fastavro's C reader per record: Avro has no columns."""
    read, parsed = _fastavro().schemaless_reader, schema.parsed
    values: list[Any] = []
    kept: list[int] = []
    bad: list[tuple[int, str]] = []
    for i, datum in enumerate(data.to_pylist()):
        stream = io.BytesIO(datum)
        try:
            value = read(stream, parsed, None)
        except _BROKEN:
            bad.append((i, "is no Avro of its schema"))
            continue
        if stream.tell() == len(datum):
            values.append(value)
            kept.append(i)
        else:
            bad.append((i, "has bytes behind its Avro datum"))
    if needs_slow_reader(wire):
        rows = pa.array([fit(value, wire) for value in values], wire)
    else:
        rows = pa.array(values, raw_wire(schema.kind, wire))
    return Objects(rows, np.array(kept, np.int64), bad)


def _fastavro() -> Any:
    try:
        import fastavro
    except ImportError:
        raise NeedsUserError(
            "the format debezium-avro needs fastavro", code="RPL-3933", hint="pip install fastavro"
        ) from None
    return fastavro
