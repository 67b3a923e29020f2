"""Debezium's envelopes as Confluent's ProtobufConverter writes them: its schema text, and messages of Google's own library.

What the converter does is known from its source; it is on no registry of packages. Shares nothing with the source but
the compiler of schemas.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

descriptor_pb2, descriptor_pool, message_factory = (
    pytest.importorskip(f"google.protobuf.{name}") for name in ("descriptor_pb2", "descriptor_pool", "message_factory")
)
google_types, grpc_tools = pytest.importorskip("google.type"), pytest.importorskip("grpc_tools")
protoc = pytest.importorskip("grpc_tools.protoc")
pytest.importorskip("ptars")

META = """syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
"""
DECIMAL = """syntax = "proto3";
package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
"""
IMPORTS = """syntax = "proto3";
package s.public.orders;

import "confluent/meta.proto";
import "confluent/type/decimal.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/type/date.proto";
import "google/type/timeofday.proto";

"""


def scaled(scale: int, precision: int) -> str:
    """The parameters that the converter adds to a decimal."""
    parameters = f'{{key: "scale", value: "{scale}"}}, {{key: "precision", value: "{precision}"}}'
    return f"[(confluent.field_meta) = {{params: [{parameters}]}}]"


def envelope(row: str, *, optional: str = "optional ", stamp: str = "optional int64") -> str:
    """The schema of an envelope with rows of the fields `row`."""
    return f"""{IMPORTS}message Envelope {{
  {optional}Value before = 1;
  {optional}Value after = 2;
  Source source = 3;
  {optional}block transaction = 4;
  string op = 5;
  {stamp} ts_ms = 6;

  message Value {{
{row}
  }}
  message Source {{
    string version = 1;
    string connector = 2;
    string name = 3;
    int64 ts_ms = 4;
    {optional}string snapshot = 5;
    string db = 6;
    {optional}string sequence = 7;
    {optional}int64 ts_us = 8;
    string schema = 9;
    string table = 10;
  }}
  message block {{
    string id = 1;
    int64 total_order = 2;
  }}
}}
"""


def message(schema: str, name: str, value: Mapping[str, Any]) -> bytes:
    """A message with these values; members that are None are not set."""
    made = _classes(schema)(name)()
    _fill(made, value)
    return bytes(made.SerializeToString())


def framed(identity: int, datum: bytes, path: tuple[int, ...] = (0,)) -> bytes:
    """A record: magic byte, id, path of the message, message."""
    steps = b"\0" if path == (0,) else bytes([2 * len(path), *(2 * step for step in path)])
    return b"\0" + identity.to_bytes(4, "big") + steps + datum


def _fill(target: Any, value: Mapping[str, Any]) -> None:
    for name, given in value.items():
        if (isinstance(given, dict) and not hasattr(getattr(target, name), "MergeFrom")) or _is_map(target, name):
            getattr(target, name).update(given)
        elif isinstance(given, dict):
            getattr(target, name).SetInParent()
            _fill(getattr(target, name), given)
        elif isinstance(given, list):
            for each in given:
                if isinstance(each, dict):
                    _fill(getattr(target, name).add(), each)
                else:
                    getattr(target, name).append(each)
        elif given is not None:
            setattr(target, name, given)


def _is_map(target: Any, name: str) -> bool:
    field = target.DESCRIPTOR.fields_by_name[name]
    return field.message_type is not None and field.message_type.GetOptions().map_entry


@cache
def _classes(schema: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, text in {
            "confluent/meta.proto": META,
            "confluent/type/decimal.proto": DECIMAL,
            "x.proto": schema,
        }.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        includes = (
            root,
            Path(grpc_tools.__file__).parent / "_proto",
            Path(next(iter(google_types.__path__))).parents[1],
        )
        places = [f"-I{place}" for place in includes]
        assert protoc.main(["protoc", *places, "--include_imports", f"--descriptor_set_out={root}/x", "x.proto"]) == 0
        files = descriptor_pb2.FileDescriptorSet.FromString((root / "x").read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    package = files.file[-1].package
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
