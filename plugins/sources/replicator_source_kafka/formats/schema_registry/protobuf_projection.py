"""Reduces messages to the wanted fields: readers skip all other fields as unknown ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from replicator_source_kafka.formats.schema_registry.protobuf_library import library

_FILE, _PACKAGE, _ROOT = "projection.proto", "projection", "M0"
_MESSAGE, _ENUM, _REPEATED, _OPTIONAL = 11, 14, 3, 1
_WRAPPERS = "google/protobuf/wrappers.proto"


def projection(message: Any, wire: pa.StructType) -> Any:
    """A descriptor of a message with only the fields of `wire`.

    Its messages have new names, so that a reader returns the parts of dates and the like, unchecked. Wrappers of single
    values keep their names. Fields of `wire` that the message lacks are left out.
    """
    file = library("google.protobuf.descriptor_pb2").FileDescriptorProto(
        name=_FILE, package=_PACKAGE, syntax="proto3", dependency=[_WRAPPERS]
    )
    _Projection(file).message(message, wire)
    pool = library("google.protobuf.descriptor_pool").DescriptorPool()
    wrappers = library("google.protobuf.descriptor_pb2").FileDescriptorProto()
    library("google.protobuf.wrappers_pb2").DESCRIPTOR.CopyToProto(wrappers)
    pool.Add(wrappers)
    pool.Add(file)
    return pool.FindMessageTypeByName(f"{_PACKAGE}.{_ROOT}")


class _Projection:
    def __init__(self, file: Any) -> None:
        self._file = file

    def message(self, message: Any, wire: pa.StructType) -> str:
        """Add a message, and return its name."""
        name = f"M{len(self._file.message_type)}"
        self._fields(self._file.message_type.add(name=name), f".{_PACKAGE}.{name}", message, wire)
        return f".{_PACKAGE}.{name}"

    def _fields(self, target: Any, name: str, message: Any, wire: pa.StructType) -> None:
        for field, kind in _wanted(message, wire):
            copy = target.field.add(name=field.name, number=field.number, type=field.type, label=_OPTIONAL)
            if field.is_repeated:
                copy.label = _REPEATED
            elif field.has_presence and field.type != _MESSAGE:
                copy.oneof_index, copy.proto3_optional = len(target.oneof_decl), True
                target.oneof_decl.add(name=f"_{field.name}")
            if field.type == _ENUM:
                copy.type_name = self._enum(field.enum_type)
            elif field.type == _MESSAGE:
                copy.type_name = self._type_of(target, name, field.message_type, kind)

    def _type_of(self, target: Any, owner: str, message: Any, kind: pa.DataType) -> str:
        if pa.types.is_map(kind):
            entry = target.nested_type.add(name=message.name)
            entry.options.map_entry = True
            members = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
            self._fields(entry, f"{owner}.{message.name}", message, members)
            return f"{owner}.{message.name}"
        if pa.types.is_list(kind):
            return self._type_of(target, owner, message, kind.value_type)
        return self.message(message, kind) if pa.types.is_struct(kind) else f".{message.full_name}"

    def _enum(self, enum: Any) -> str:
        """Add the enum in a new message, since the names of its values belong to the scope around it."""
        name = f"M{len(self._file.message_type)}"
        enum.CopyToProto(self._file.message_type.add(name=name).enum_type.add())
        return f".{_PACKAGE}.{name}.{enum.name}"


def _wanted(message: Any, wire: pa.StructType) -> Iterator[tuple[Any, pa.DataType]]:
    for member in wire:
        if field := message.fields_by_name.get(member.name):
            yield field, member.type
