"""`debezium-avro`: Debezium's envelopes as Avro, their schemas in a registry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from replicator_sdk.batch import Int64s
from replicator_sdk.config import OutOfRange
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.formats.avro_objects import AvroRun, AvroSchemas, read_avro
from replicator_source_kafka.formats.change_rows import Block, changes_of
from replicator_source_kafka.formats.envelope import Envelope, NotAnEnvelope, compile_envelope, is_quiet
from replicator_source_kafka.formats.format import Decoded, Format, Part, Poison
from replicator_source_kafka.formats.payloads import keys_as
from replicator_source_kafka.formats.record_keys import RecordKeys
from replicator_source_kafka.formats.schema_registry import SchemaRegistry
from replicator_source_kafka.formats.unavailable import Unavailable
from replicator_source_kafka.records import Records

_MAGIC = b"\0"


class DebeziumAvro(Format):
    """Debezium's envelopes as Confluent's or Apicurio's AvroConverter writes them; keys as Avro or JSON."""

    def __init__(self, config: KafkaConfig, rule: OutOfRange) -> None:
        self._config = config
        self._rule = rule
        self._schemas = AvroSchemas(SchemaRegistry(config.schema_registry_url or ""))
        self._json_keys = RecordKeys()
        self._envelopes: dict[tuple[int, tuple[str, ...]], Envelope | str] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """What it has seen stays behind."""
        return type(self), (self._config, self._rule)

    def decode(self, records: Records) -> Decoded:
        """The changes in `records`."""
        poison: list[Poison] = []
        parts: list[Part] = []
        index = np.flatnonzero(records.value.is_valid().to_numpy(zero_copy_only=False))
        for run in self._schemas.runs(records.value.drop_null(), index, poison):
            if is_quiet(run.schema.kind.name):
                continue
            where = index[run.positions]
            for key, positions in self._keys(records, where, poison):
                parts.extend(self._changes(records, run, key, positions, where, poison))
        return Decoded(parts, sorted(poison, key=lambda p: p.index))

    def _keys(self, records: Records, index: Int64s, poison: list[Poison]) -> Iterator[tuple[tuple[str, ...], Int64s]]:
        """The positions in `index` by the names in the records' keys."""
        keys = records.key.take(pa.array(index))
        avro = np.array([k is not None and k[:1] == _MAGIC for k in keys.to_pylist()], np.bool_)
        others = np.flatnonzero(~avro)
        if len(others):
            for group in self._json_keys.groups(records.key, index[others], poison):
                yield tuple(group.kinds), others[group.positions]
        mine = np.flatnonzero(avro)
        for run in self._schemas.runs(keys.take(pa.array(mine)), index[mine], poison):
            names = tuple(name for name, _ in run.schema.kind.fields)
            if names:
                yield names, mine[run.positions]
            else:
                gone = index[mine[run.positions]]
                poison.extend(Poison(int(i), "RPL-3916", "has a key whose schema is no record") for i in gone)

    def _changes(
        self,
        records: Records,
        run: AvroRun,
        key: tuple[str, ...],
        positions: Int64s,
        where: Int64s,
        poison: list[Poison],
    ) -> list[Part]:
        """The changes of records with one schema and one key."""
        envelope = self._envelope(run, key)
        if isinstance(envelope, str):
            poison.extend(Poison(int(i), "RPL-3915", envelope) for i in where[positions])
            return []
        found = read_avro(run.schema, envelope.wire, run.data.take(pa.array(positions)))
        index = where[positions]
        poison.extend(Poison(int(index[i]), "RPL-3900", reason) for i, reason in found.bad)
        block = Block(
            envelope,
            found.rows,
            index[found.index],
            lambda which: self._read_keys(records, which, envelope),
            records.place,
            Unavailable(self._config.unavailable_value),
            self._rule,
        )
        return changes_of(block, poison)

    def _envelope(self, run: AvroRun, key: tuple[str, ...]) -> Envelope | str:
        cached = self._envelopes.get((run.schema.identity, key))
        if cached is None:
            try:
                cached = compile_envelope(run.schema.kind, key)
            except NotAnEnvelope as error:
                cached = str(error)
            self._envelopes[run.schema.identity, key] = cached
        return cached

    def _read_keys(self, records: Records, which: Int64s, envelope: Envelope) -> pa.StructArray | None:
        """The keys of some records; null for one that cannot be read."""
        if not envelope.key:
            return None
        wire = pa.struct([pa.field(name, envelope.codecs[name].wire) for name in envelope.key])
        keys = records.key.take(pa.array(which))
        if not all(k is not None and k[:1] == _MAGIC for k in keys.to_pylist()):
            return keys_as(wire, keys)
        found: list[pa.StructArray] = []
        order = np.full(len(keys), -1)
        count = 0
        for run in self._schemas.runs(keys, which, []):
            objects = read_avro(run.schema, wire, run.data)
            order[run.positions[objects.index]] = count + np.arange(len(objects.index))
            count += len(objects.index)
            found.append(objects.rows)
        return pa.concat_arrays(found).take(pa.array(order, mask=order < 0)) if found else None
