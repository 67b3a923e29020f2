"""Reads Avro data with schemas in a registry."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from replicator_sdk.authoring.driver_errors import required_library
from replicator_sdk.batch import Int64s
from replicator_sdk.errors import NeedsUserError
from replicator_source_kafka.formats.json_records.json_objects import Objects
from replicator_source_kafka.formats.json_records.json_value import fit
from replicator_source_kafka.formats.schema_registry.framing import Frame
from replicator_source_kafka.formats.schema_registry.registry_client import RegisteredSchema, SchemaId
from replicator_source_kafka.formats.schema_registry.registry_schemas import RegistryRun, RegistrySchema, SchemaLanguage
from replicator_source_kafka.types.avro_type import avro_connect_type, raw_wire, without_logical_types
from replicator_source_kafka.types.column_codec import Codec, needs_slow_reader
from replicator_source_kafka.types.connect_type import ConnectType
from replicator_source_kafka.types.standard_types import codec_of

_BROKEN = (EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError, struct.error)


class Avro(SchemaLanguage):
    """Avro by fastavro's C reader."""

    name = "AVRO"

    def __init__(self) -> None:
        self._known: dict[SchemaId, RegistrySchema] = {}

    def schemas(self, frame: Frame, registered: RegisteredSchema) -> Iterator[RegistryRun | tuple[Int64s, str]]:
        """All records of a frame have its one schema."""
        if frame.identity not in self._known:
            self._known[frame.identity] = _parsed(frame.identity, registered)
        yield RegistryRun(self._known[frame.identity], frame.positions, frame.data)

    def codec(self, kind: ConnectType, connector: str, hint: str | None) -> Codec:  # noqa: ARG002 - Avro has types
        """The same codec as for JSON with schemas; bytes are read as bytes."""
        return codec_of(kind, connector)

    def read(self, schema: RegistrySchema, wire: pa.StructType, data: pa.BinaryArray) -> Objects:
        """One call of fastavro's C reader per record: Avro has no columns."""
        reader = _fastavro().schemaless_reader
        values: list[Any] = []
        kept: list[int] = []
        bad: list[tuple[int, str]] = []
        for i, datum in enumerate(data.to_pylist()):
            stream = io.BytesIO(datum)
            try:
                value = reader(stream, schema.parsed, None)
            except _BROKEN:
                bad.append((i, "is not Avro of its schema"))
                continue
            if stream.tell() == len(datum):
                values.append(value)
                kept.append(i)
            else:
                bad.append((i, "has bytes after its Avro data"))
        if needs_slow_reader(wire):
            rows = pa.array([fit(value, wire) for value in values], wire)
        else:
            rows = pa.array(values, raw_wire(schema.kind, wire))
        return Objects(rows, np.array(kept, np.int64), bad)


def _parsed(identity: SchemaId, registered: RegisteredSchema) -> RegistrySchema:
    named: dict[str, Any] = {}
    _learn(registered, named)
    try:
        parsed = _fastavro().parse_schema(json.loads(registered.text), named_schemas=named, expand=True)
    except _not_avro() as error:
        raise ValueError("has a schema that is not an Avro schema") from error
    parsed = {k: v for k, v in parsed.items() if not k.startswith("__")} if isinstance(parsed, dict) else parsed
    kind = avro_connect_type(_once(parsed, set()))
    plain = _fastavro().parse_schema(without_logical_types(_once(parsed, set())))
    return RegistrySchema(identity, kind, plain)


def _learn(registered: RegisteredSchema, named: dict[str, Any]) -> None:
    """Add the names in the schemas it refers to."""
    for _, reference in registered.references:
        _learn(reference, named)
        _fastavro().parse_schema(json.loads(reference.text), named_schemas=named)


def _not_avro() -> tuple[type[Exception], ...]:
    schema = _fastavro().schema
    return schema.SchemaParseException, schema.UnknownType, ValueError, KeyError, TypeError


def _once(schema: Any, met: set[str]) -> Any:
    """An expanded schema in which every name is defined at its first use only."""
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


def _fastavro() -> Any:
    with required_library(
        NeedsUserError("records in Avro need fastavro", code="RPL-3933", hint="pip install fastavro")
    ):
        import fastavro
    return fastavro
