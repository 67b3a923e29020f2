"""`flattened-avro` and `upsert-avro`: rows as Avro, with schemas in a registry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from replicator_sdk.batch import Int64s
from replicator_sdk.config import OutOfRange
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.formats.debezium_metadata import is_metadata_schema
from replicator_source_kafka.formats.flat.flat_format import FlatFormat
from replicator_source_kafka.formats.flat.flat_rows import FlatBlock
from replicator_source_kafka.formats.format import Poison
from replicator_source_kafka.formats.json_records.record_keys import KeyGroup
from replicator_source_kafka.formats.schema_registry.avro_objects import Avro
from replicator_source_kafka.formats.schema_registry.registry_client import SchemaRegistry
from replicator_source_kafka.formats.schema_registry.registry_keys import RegistryKeys
from replicator_source_kafka.formats.schema_registry.registry_schemas import RegistryRun, RegistrySchemas
from replicator_source_kafka.records import Records
from replicator_source_kafka.types.column_codec import Codec


class FlatAvro(FlatFormat):
    """Rows as Avro records; their keys as Avro or JSON."""

    def __init__(self, config: KafkaConfig, rule: OutOfRange) -> None:
        super().__init__(config, rule)
        self._language = Avro()
        self._schemas = RegistrySchemas(SchemaRegistry(config.schema_registry_url or ""), self._language)
        self._keys = RegistryKeys(self._schemas)

    def keys(self, records: Records, index: Int64s, poison: list[Poison]) -> Iterator[KeyGroup]:
        """By the names in their keys."""
        return self._keys.groups(records, index, poison)

    def read_keys(self, records: Records, codecs: Mapping[str, Codec], index: Int64s) -> pa.StructArray:
        """The keys, with a schema of the registry or as JSON."""
        return self._keys.read(records, codecs, index)

    def blocks(self, records: Records, key: KeyGroup, index: Int64s, poison: list[Poison]) -> Iterator[FlatBlock]:
        """The rows by schema and table."""
        for run in self._schemas.runs(records, "value", index, poison):
            where = index[run.positions]
            if is_metadata_schema(run.schema.kind.name):
                continue
            if run.schema.kind.fields:
                yield from self._rows(records, run, key, where, poison)
            else:
                poison.extend(Poison(int(i), "RPL-3915", "is not a row: its schema is not a record") for i in where)

    def _rows(
        self, records: Records, run: RegistryRun, key: KeyGroup, where: Int64s, poison: list[Poison]
    ) -> Iterator[FlatBlock]:
        fields = dict(run.schema.kind.fields)
        codecs = {name: self._language.codec(field, "", None) for name, field in fields.items()}
        wire = pa.struct([pa.field(name, codec.wire) for name, codec in codecs.items()])
        found = self._language.read(run.schema, wire, run.data)
        poison.extend(Poison(int(where[i]), "RPL-3900", reason) for i, reason in found.bad)
        index = where[found.index]
        for table, positions in self.tables(records, found.rows, index, poison):
            rows = found.rows if len(positions) == len(index) else found.rows.take(pa.array(positions))
            columns = self.columns(fields, key)
            yield FlatBlock(
                table, columns, codecs, rows, index[positions], key, self.hints(table), self.operations(rows)
            )
