"""Debezium's envelopes with their schemas in a registry: `debezium-avro` and `debezium-protobuf`."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from replicator_sdk.batch import Int64s
from replicator_sdk.config import OutOfRange
from replicator_sdk.schema import TableSchema
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.formats.debezium_metadata import is_metadata_schema
from replicator_source_kafka.formats.envelope.change_rows import Block, changes_of
from replicator_source_kafka.formats.envelope.envelope_schema import Envelope, NotAnEnvelope, compile_envelope
from replicator_source_kafka.formats.envelope.tombstones import TombstoneReader, lone_tombstones
from replicator_source_kafka.formats.flat.flat_rows import FlatRowMaker
from replicator_source_kafka.formats.format import Decoded, Format, Part, Poison
from replicator_source_kafka.formats.json_records.record_keys import KeyGroup
from replicator_source_kafka.formats.schema_registry.avro_objects import Avro
from replicator_source_kafka.formats.schema_registry.registry_client import SchemaRegistry
from replicator_source_kafka.formats.schema_registry.registry_keys import RegistryKeys
from replicator_source_kafka.formats.schema_registry.registry_schemas import (
    RegistryRun,
    RegistrySchemas,
    SchemaLanguage,
)
from replicator_source_kafka.formats.unavailable import UnavailableValues
from replicator_source_kafka.records import Records
from replicator_source_kafka.types.column_codec import Codec
from replicator_source_kafka.types.connect_type import ConnectType

Refusal = tuple[str, str]
"""Code and reason of records that are poison."""


@dataclass(frozen=True, slots=True)
class Route:
    """Records of a run that are read with the same codecs.

    Attributes:
        positions: Their positions in the run.
        connector: Debezium's connector, if the schema does not contain it.
        hints: The configured types of the columns.
    """

    positions: Int64s
    connector: str
    hints: Mapping[str, str]


class RegistryEnvelopes(Format):
    """Envelopes of a converter with a registry; keys have schemas of the registry as well, or are JSON."""

    def __init__(self, config: KafkaConfig, rule: OutOfRange, language: SchemaLanguage) -> None:
        self._config = config
        self._rule = rule
        self._language = language
        self._schemas = RegistrySchemas(SchemaRegistry(config.schema_registry_url or ""), language)
        self._keys = RegistryKeys(self._schemas)
        self._envelopes: dict[Hashable, Envelope | Refusal] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the settings only, not the caches."""
        return type(self), (self._config, self._rule)

    def decode(self, records: Records) -> Decoded:
        """The changes in `records`."""
        poison: list[Poison] = []
        parts: list[Part] = []
        index = np.flatnonzero(records.value.is_valid().to_numpy(zero_copy_only=False))
        for run in self._schemas.runs(records, "value", index, poison):
            if is_metadata_schema(run.schema.kind.name):
                continue
            for key in self._keys.groups(records, index[run.positions], poison):
                mine = RegistryRun(run.schema, index[run.positions[key.positions]], _take(run.data, key.positions))
                for route in self.routes(mine):
                    parts.extend(self._changes(records, mine, key, route, poison))
        return Decoded(parts, sorted(poison, key=lambda p: p.index), lone_tombstones(records, parts))

    def deletes(self, records: Records, index: Int64s, known: TableSchema, poison: list[Poison]) -> list[Part]:
        """See `Format.deletes`; keys have schemas of the registry, or are JSON."""
        maker = FlatRowMaker(
            records,
            lambda codecs, which: self._keys.read(records, codecs, which),
            UnavailableValues(self._config.unavailable_value),
            self._rule,
            poison,
        )
        hints = self._config.column_types.get(str(known.table), {})
        reader = TombstoneReader(maker, known, hints, self._language.codec)
        return reader.deletes(self._keys.groups(records, index, poison), index)

    def routes(self, run: RegistryRun) -> Iterator[Route]:
        """The run's records, grouped by properties that their schema does not contain; here one group."""
        yield Route(np.arange(len(run.data)), "", {})

    def _changes(
        self, records: Records, run: RegistryRun, key: KeyGroup, route: Route, poison: list[Poison]
    ) -> list[Part]:
        """The changes of records with one schema and the same names in their keys."""
        index = run.positions[route.positions]
        envelope = self._envelope(run, tuple(key.kinds), route)
        if not isinstance(envelope, Envelope):
            poison.extend(Poison(int(i), *envelope) for i in index)
            return []
        found = self._language.read(run.schema, envelope.wire, _take(run.data, route.positions))
        poison.extend(Poison(int(index[i]), "RPL-3900", reason) for i, reason in found.bad)
        codecs = {name: envelope.codecs[name] for name in envelope.key}
        block = Block(
            envelope,
            found.rows,
            index[found.index],
            lambda which: self._keys.read(records, codecs, which) if codecs else None,
            records.position,
            UnavailableValues(self._config.unavailable_value),
            self._rule,
        )
        return changes_of(block, poison)

    def refusal(self, kind: ConnectType) -> str | None:  # noqa: ARG002 - for overriders
        """Why envelopes of a schema cannot be read; None if they can."""
        return None

    def _envelope(self, run: RegistryRun, key: tuple[str, ...], route: Route) -> Envelope | Refusal:
        """The compiled schema, or why records of it are poison."""
        what = (run.schema.identity, key, route.connector, tuple(route.hints.items()))
        if what not in self._envelopes:
            self._envelopes[what] = self._compiled(run.schema.kind, key, route)
        return self._envelopes[what]

    def _compiled(self, kind: ConnectType, key: tuple[str, ...], route: Route) -> Envelope | Refusal:
        def codec(name: str, column: ConnectType, connector: str) -> Codec:
            return self._language.codec(column, connector, route.hints.get(name))

        try:
            envelope = compile_envelope(kind, key, codec, route.connector)
        except NotAnEnvelope as error:
            return "RPL-3915", str(error)
        except ValueError as error:
            return "RPL-3904", f"does not fit columnTypes: {error}"
        reason = self.refusal(kind)
        return ("RPL-3973", reason) if reason else envelope


def _take(values: pa.Array, positions: Int64s) -> pa.Array:
    return values if len(positions) == len(values) else values.take(pa.array(positions))


class DebeziumAvro(RegistryEnvelopes):
    """Envelopes as Confluent's or Apicurio's AvroConverter writes them."""

    def __init__(self, config: KafkaConfig, rule: OutOfRange) -> None:
        super().__init__(config, rule, Avro())
