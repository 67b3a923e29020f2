"""`debezium-protobuf`: Debezium's envelopes as Protobuf, their schemas in a registry."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.config import OutOfRange
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.formats.envelope.change_rows import tables_of
from replicator_source_kafka.formats.envelope.registry_envelopes import RegistryEnvelopes, Route
from replicator_source_kafka.formats.schema_registry.protobuf_objects import Protobuf
from replicator_source_kafka.formats.schema_registry.registry_schemas import RegistryRun
from replicator_source_kafka.types.connect_type import ConnectType

_NAMES = ("connector", "db", "schema", "table")
_ZEROS = (
    "has a schema in which NULL is written as zero or empty text: set optional.for.nullables (or"
    " wrapper.for.nullables) of the connector's value.converter to true"
)


class DebeziumProtobuf(RegistryEnvelopes):
    """Envelopes as Confluent's ProtobufConverter writes them.

    The converter drops the names of most semantic types and the connector's name. So the `source` of each record is read
    first, to find its connector and the configured types of its table.
    """

    def __init__(self, config: KafkaConfig, rule: OutOfRange) -> None:
        super().__init__(config, rule, Protobuf())

    def routes(self, run: RegistryRun) -> Iterator[Route]:
        """By table and connector."""
        source = run.schema.kind.get("source")
        names = [name for name in _NAMES if source is not None and source.get(name) is not None]
        if not names:
            yield from super().routes(run)
            return
        wire = pa.struct([("source", pa.struct([(name, pa.string()) for name in names]))])
        found = self._language.read(run.schema, wire, run.data)
        if len(found.bad):  # reported when the whole records are read
            yield Route(np.array([i for i, _ in found.bad], np.int64), "", {})
        sources = found.rows.field("source")
        for table, positions in tables_of(sources):
            hints = self._config.column_types.get(str(table), {})
            for connector, some in _connectors(sources.take(pa.array(positions))):
                yield Route(found.index[positions[some]], connector, hints)

    def refusal(self, kind: ConnectType) -> str | None:
        """Why envelopes of a schema cannot be read: their NULLs are lost if `ts_ms`, which may be NULL, is not optional."""
        stamp = kind.get("ts_ms")
        return _ZEROS if stamp is not None and not stamp.optional else None


def _connectors(sources: pa.StructArray) -> Iterator[tuple[str, np.ndarray]]:
    if sources.type.get_field_index("connector") < 0:
        yield "", np.arange(len(sources))
        return
    names = pc.coalesce(sources.field("connector"), "").dictionary_encode()
    codes = names.indices.to_numpy()
    for code, name in enumerate(names.dictionary.to_pylist()):
        yield name, np.flatnonzero(codes == code)
