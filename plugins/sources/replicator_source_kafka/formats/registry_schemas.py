"""Records whose schemas are in a registry, by schema; what Avro and Protobuf have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from replicator_sdk.batch import Int64s
from replicator_source_kafka.formats.format import Poison
from replicator_source_kafka.formats.framing import Frame, frames
from replicator_source_kafka.formats.json_objects import Objects
from replicator_source_kafka.formats.schema_registry import RegisteredSchema, SchemaRegistry, UnknownSchema
from replicator_source_kafka.records import Records
from replicator_source_kafka.types.column_codec import Codec
from replicator_source_kafka.types.connect_type import ConnectType


@dataclass(frozen=True, slots=True)
class RegistrySchema:
    """A schema of the registry's, understood.

    Attributes:
        identity: The same for the same schema only.
        kind: The type it describes.
        parsed: What its language reads data with.
    """

    identity: Hashable
    kind: ConnectType
    parsed: Any


@dataclass(frozen=True, slots=True)
class RegistryRun:
    """Keys or values with one schema.

    Attributes:
        schema: The schema.
        positions: Which of those asked for.
        data: Their data, without ids.
    """

    schema: RegistrySchema
    positions: Int64s
    data: pa.BinaryArray


class Language(ABC):
    """What differs between the languages of schemas."""

    name: ClassVar[str]
    """As the registry calls it."""

    @abstractmethod
    def schemas(self, frame: Frame, registered: RegisteredSchema) -> Iterator[RegistryRun | tuple[Int64s, str]]:
        """The frame's records by schema (a text may hold several), and positions of others with what is wrong.

        Raises:
            ValueError: When the schema cannot be used; the message ends a sentence that begins with the record.
        """

    @abstractmethod
    def codec(self, kind: ConnectType, connector: str, hint: str | None) -> Codec:
        """How a column travels; its wire type is one that `read` takes. The hint is for columns without a semantic type."""

    @abstractmethod
    def read(self, schema: RegistrySchema, wire: pa.StructType, data: pa.BinaryArray) -> Objects:
        """The data as structs with the members of `wire`; bytes come as bytes where the wire may say text."""


@dataclass(slots=True)
class RegistrySchemas:
    """Groups records by their schemas.

    Attributes:
        registry: Where the schemas are.
        language: The one they are written in.
    """

    registry: SchemaRegistry
    language: Language
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
                # Not remembered: a registry's replica may learn of it later.
                reason = f"has the schema {frame.identity}, which the registry does not know"
                poison.extend(_poison(index[frame.positions], reason))
            except ValueError as error:
                self._refused[frame.identity] = str(error)
                poison.extend(_poison(index[frame.positions], str(error)))

    def _registered(self, frame: Frame) -> RegisteredSchema:
        registered = self.registry.schema(frame.identity)
        if registered.language not in {"", self.language.name}:
            raise ValueError(f"has a schema of the kind {registered.language}, not {self.language.name}")
        return registered


def _poison(index: Int64s, reason: str) -> list[Poison]:
    return [Poison(int(i), "RPL-3930", reason) for i in np.asarray(index)]
