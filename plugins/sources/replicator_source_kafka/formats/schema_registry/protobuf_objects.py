"""Reads Protobuf data with schemas in a registry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import Int64s
from replicator_source_kafka.formats.json_records.json_objects import Objects
from replicator_source_kafka.formats.schema_registry.framing import Frame
from replicator_source_kafka.formats.schema_registry.protobuf_library import library
from replicator_source_kafka.formats.schema_registry.protobuf_projection import projection
from replicator_source_kafka.formats.schema_registry.protobuf_source import ProtobufFile
from replicator_source_kafka.formats.schema_registry.registry_client import RegisteredSchema, SchemaId
from replicator_source_kafka.formats.schema_registry.registry_schemas import RegistryRun, RegistrySchema, SchemaLanguage
from replicator_source_kafka.types.column_codec import Codec
from replicator_source_kafka.types.connect_type import ConnectType
from replicator_source_kafka.types.protobuf_codec import protobuf_codec
from replicator_source_kafka.types.protobuf_type import protobuf_connect_type

_LONGEST = 2**31 - 1
_MOST = 63
"""The longest path whose length fits one byte; no schema is as deep."""

Path = tuple[int, ...]


@dataclass(slots=True)
class _Message:
    """A message and its readers, by the type they read."""

    descriptor: Any
    readers: dict[str, Any] = field(default_factory=dict)


class Protobuf(SchemaLanguage):
    """Protobuf by ptars, which reads columns without Python code for each record."""

    name = "PROTOBUF"

    def __init__(self) -> None:
        self._files: dict[SchemaId, ProtobufFile] = {}
        self._known: dict[tuple[SchemaId, Path], RegistrySchema | str] = {}

    def schemas(self, frame: Frame, registered: RegisteredSchema) -> Iterator[RegistryRun | tuple[Int64s, str]]:
        """See `SchemaLanguage.schemas`; the path of its message is before each record's data."""
        if frame.identity not in self._files:
            self._files[frame.identity] = ProtobufFile(registered)
        for path, positions, data in _by_path(frame.data):
            schema = "does not name its message" if path is None else self._message(frame.identity, path)
            mine = frame.positions[positions]
            yield (mine, schema) if isinstance(schema, str) else RegistryRun(schema, mine, data)

    def _message(self, identity: SchemaId, path: Path) -> RegistrySchema | str:
        if (identity, path) not in self._known:
            file = self._files[identity]
            try:
                descriptor = file.message(path)
                kind = protobuf_connect_type(descriptor, file.parameters)
                self._known[identity, path] = RegistrySchema((identity, path), kind, _Message(descriptor))
            except ValueError as error:
                self._known[identity, path] = str(error)
        return self._known[identity, path]

    def codec(self, kind: ConnectType, connector: str, hint: str | None) -> Codec:
        """The codec; Connect's converter drops most semantic types, so configured types are used."""
        return protobuf_codec(kind, connector, hint)

    def read(self, schema: RegistrySchema, wire: pa.StructType, data: pa.BinaryArray) -> Objects:
        """Read all data at once; invalid data are found by halving."""
        message: _Message = schema.parsed
        reader = message.readers.get(str(wire))
        if reader is None:
            reader = message.readers[str(wire)] = _reader(projection(message.descriptor, wire))
        found: list[pa.StructArray] = []
        bad: list[int] = []
        _read(reader, data, 0, found, bad)
        rows = pa.concat_arrays([_as(rows, wire) for rows in found]) if found else pa.array([], wire)
        kept = np.setdiff1d(np.arange(len(data)), bad)
        return Objects(rows, kept, [(i, "is not Protobuf of its schema") for i in bad])


def _by_path(data: pa.BinaryArray) -> Iterator[tuple[Path | None, Int64s, pa.BinaryArray]]:
    """Group data by the path of indexes before them: the count and each index zigzag-coded, or a single zero for [0]."""
    heads = pc.binary_slice(data, 0, 1).dictionary_encode()
    codes = heads.indices.to_numpy()
    for code, head in enumerate(heads.dictionary.to_pylist()):
        positions = np.flatnonzero(codes == code)
        mine = data if len(positions) == len(data) else data.take(pa.array(positions))
        if head == b"\0":
            yield (0,), positions, pc.binary_slice(mine, 1, _LONGEST)
        elif not head or head[0] > 2 * _MOST or head[0] % 2:
            yield None, positions, mine
        else:
            yield from _by_long_path(mine, positions, head[0] // 2)


def _by_long_path(
    data: pa.BinaryArray, positions: Int64s, count: int
) -> Iterator[tuple[Path | None, Int64s, pa.BinaryArray]]:
    paths = pc.binary_slice(data, 1, 1 + count).dictionary_encode()
    codes = paths.indices.to_numpy()
    for code, path in enumerate(paths.dictionary.to_pylist()):
        some = np.flatnonzero(codes == code)
        # Indexes from 64 on have a second byte.
        whole = len(path) == count and all(byte < 128 and byte % 2 == 0 for byte in path)
        rest = pc.binary_slice(data.take(pa.array(some)), 1 + count, _LONGEST)
        yield tuple(byte // 2 for byte in path) if whole else None, positions[some], rest


def _reader(descriptor: Any) -> Any:
    ptars = library("ptars")
    settings = ptars.PtarsConfig(list_value_name="element", enum_repr="string")
    return ptars.HandlerPool([descriptor.file], settings).get_for_message(descriptor)


def _read(reader: Any, data: pa.BinaryArray, start: int, found: list[pa.StructArray], bad: list[int]) -> None:
    try:
        found.append(pa.RecordBatch.to_struct_array(reader.array_to_record_batch(data)))
    except ValueError:
        if len(data) == 1:
            bad.append(start)
            return
        middle = len(data) // 2
        _read(reader, data[:middle], start, found, bad)
        _read(reader, data[middle:], start + middle, found, bad)


def _as(rows: pa.StructArray, wire: pa.StructType) -> pa.StructArray:
    """`rows` with the members of `wire`, in its order; missing members are null."""
    children = [
        rows.field(member.name).cast(member.type)
        if rows.type.get_field_index(member.name) >= 0
        # A key may not have all columns of the row.
        else pa.nulls(len(rows), member.type)
        for member in wire
    ]
    return pa.StructArray.from_arrays(children, fields=list(wire))
