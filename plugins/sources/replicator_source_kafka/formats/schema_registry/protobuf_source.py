"""Compiles schemas in Protobuf's language with protoc."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from replicator_source_kafka.formats.schema_registry.protobuf_library import library
from replicator_source_kafka.formats.schema_registry.registry_client import RegisteredSchema

_MAIN = "registered.proto"
_META, _DECIMAL = "confluent/meta.proto", "confluent/type/decimal.proto"
_OPTIONS = "".join(
    f"extend google.protobuf.{kind}Options {{ Meta {name}_meta = 1088; }}\n"
    for kind, name in (
        ("File", "file"),
        ("Message", "message"),
        ("Field", "field"),
        ("Enum", "enum"),
        ("EnumValue", "enum_value"),
    )
)
_BUILT_IN = {
    _META: f"""syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta {{
  string doc = 1;
  map<string, string> params = 2;
  repeated string tags = 3;
}}
{_OPTIONS}""",
    _DECIMAL: """syntax = "proto3";
package confluent.type;
message Decimal {
  bytes value = 1;
  uint32 precision = 2;
  int32 scale = 3;
}
""",
}
"""Files that Confluent's registry assumes, as far as records depend on them."""


class ProtobufFile:
    """A compiled schema, in its own pool: two schemas may have messages of the same name."""

    def __init__(self, registered: RegisteredSchema) -> None:
        """Compile it.

        Raises:
            ValueError: When protoc refuses it.
            NeedsUserError: When a library is missing.
        """
        files = library("google.protobuf.descriptor_pb2").FileDescriptorSet.FromString(_compiled(registered))
        self._pool = library("google.protobuf.descriptor_pool").DescriptorPool()
        for file in files.file:
            self._pool.Add(file)
        self._main = self._pool.FindFileByName(_MAIN)
        self._has_meta = any(file.name == _META for file in files.file)

    def message(self, path: tuple[int, ...]) -> Any:
        """The descriptor of the message at a path of indexes, as in records.

        Raises:
            ValueError: When the path does not exist.
        """
        try:
            descriptor = list(self._main.message_types_by_name.values())[path[0]]
            for index in path[1:]:
                descriptor = descriptor.nested_types[index]
        except IndexError:
            raise ValueError("names a message that its schema does not have") from None
        return descriptor

    def parameters(self, field: Any) -> dict[str, str]:
        """The parameters that Confluent's converter adds to a field: a decimal's scale, a small integer's type."""
        written = field.GetOptions().SerializeToString()
        if not written or not self._has_meta:
            return {}
        options = library("google.protobuf.message_factory").GetMessageClass(
            self._pool.FindMessageTypeByName("google.protobuf.FieldOptions")
        )
        return dict(
            options.FromString(written).Extensions[self._pool.FindExtensionByName("confluent.field_meta")].params
        )


def _compiled(registered: RegisteredSchema) -> bytes:
    """A FileDescriptorSet of the schema and all it imports."""
    compiler = library("grpc_tools.protoc")
    includes = [Path(library("grpc_tools").__file__).parent / "_proto"]
    includes += [Path(path).parent.parent for path in library("google.type").__path__]
    with tempfile.TemporaryDirectory(prefix="replicator-proto-") as folder:
        root = Path(folder)
        for name, text in {**_BUILT_IN, **dict(_files(registered)), _MAIN: registered.text}.items():
            file = root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        found = root / "found"
        places = [f"-I{path}" for path in (root, *includes)]
        if compiler.main(["protoc", *places, "--include_imports", f"--descriptor_set_out={found}", _MAIN]):
            raise ValueError("has a schema that is not a Protobuf schema")
        return found.read_bytes()


def _files(registered: RegisteredSchema) -> Iterator[tuple[str, str]]:
    """The schemas it refers to, by the names it imports them by."""
    for name, reference in registered.references:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or name == _MAIN:
            raise ValueError("has a schema with a reference whose name is not a valid path")
        yield name, reference.text
        yield from _files(reference)
