"""Groups records by their schemas in a registry; the common part of Avro and Protobuf."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from replicator_sdk.batch import Int64s
from replicator_source_kafka.formats.format import Poison
from replicator_source_kafka.formats.json_records.json_objects import Objects
from replicator_source_kafka.formats.schema_registry.framing import Frame, frames
from replicator_source_kafka.formats.schema_registry.registry_client import (
    RegisteredSchema,
    SchemaRegistry,
    UnknownSchema,
)
from replicator_source_kafka.records import Records
from replicator_source_kafka.types.column_codec import Codec
from replicator_source_kafka.types.connect_type import ConnectType


@dataclass(frozen=True, slots=True)
class RegistrySchema:
    """A parsed schema of the registry.

    Attributes:
        identity: Equal for the same schema only.
        kind: The type it describes.
        parsed: The object that its language reads data with.
    """

    identity: Hashable
    kind: ConnectType
    parsed: Any


@dataclass(frozen=True, slots=True)
class RegistryRun:
    """Keys or values with one schema.

    Attributes:
        schema: The schema.
        positions: Positions in the array of indexes that was given.
        data: Their data, without ids.
    """

    schema: RegistrySchema
    positions: Int64s
    data: pa.BinaryArray


class SchemaLanguage(ABC):
    """A language of schemas: Avro or Protobuf."""

    name: ClassVar[str]
    """Its name in the registry."""

    @abstractmethod
    def schemas(self, frame: Frame, registered: RegisteredSchema) -> Iterator[RegistryRun | tuple[Int64s, str]]:
        """The frame's records by schema (a text may contain several), and the positions of invalid ones with the reason.

        Raises:
            ValueError: When the schema cannot be used; the message ends a sentence that begins with the record.
        """

    @abstractmethod
    def codec(self, kind: ConnectType, connector: str, hint: str | None) -> Codec:
        """The codec of a column, for `read`. The configured type `hint` is used for columns without a semantic type."""

    @abstractmethod
    def read(self, schema: RegistrySchema, wire: pa.StructType, data: pa.BinaryArray) -> Objects:
        """The data as structs with the members of `wire`; bytes are returned as bytes even if `wire` has text."""


@dataclass(slots=True)
class RegistrySchemas:
    """Groups records by their schemas.

    Attributes:
        registry: The registry of the schemas.
        language: The language of the schemas.
    """

    registry: SchemaRegistry
    language: SchemaLanguage
    _refused: dict[Hashable, str] = field(default_factory=dict)

    def runs(self, records: Records, part: str, index: Int64s, poison: list[Poison]) -> Iterator[RegistryRun]:
        """The keys or values (`part`) at `index`, none of them null, by schema; others are added to `poison`."""
        for frame in frames(records, part, index, poison):
            if reason := self._refused.get(frame.identity):
                poison.extend(_poison(index[frame.positions], reason))
                continue
            try:
                for found in self.language.schemas(frame, self._registered(frame)):
                    if isinstance(found, RegistryRun):
                        yield found
                    else:
                        poison.extend(_poison(index[found[0]], found[1]))
            except UnknownSchema:
                # Not cached: a replica of the registry may receive it later.
                reason = f"has the schema {frame.identity}, which the registry does not know"
                poison.extend(_poison(index[frame.positions], reason))
            except ValueError as error:
                self._refused[frame.identity] = str(error)
                poison.extend(_poison(index[frame.positions], str(error)))

    def _registered(self, frame: Frame) -> RegisteredSchema:
        registered = self.registry.schema(frame.identity)
        if registered.language not in {"", self.language.name}:
            raise ValueError(f"has a schema in {registered.language}, not in {self.language.name}")
        return registered


def _poison(index: Int64s, reason: str) -> list[Poison]:
    return [Poison(int(i), "RPL-3930", reason) for i in np.asarray(index)]
