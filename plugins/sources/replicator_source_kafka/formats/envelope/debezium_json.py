"""`debezium-json`: Debezium's envelopes as JSON, with the schema in every record or without schemas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
from replicator_source_kafka.formats.envelope.plain_envelope import plain_envelopes
from replicator_source_kafka.formats.envelope.tombstones import TombstoneReader, lone_tombstones
from replicator_source_kafka.formats.flat.flat_rows import FlatRowMaker
from replicator_source_kafka.formats.format import Decoded, Format, Part, Poison
from replicator_source_kafka.formats.json_records.decimal_format import DecimalFormat, decimal_format
from replicator_source_kafka.formats.json_records.embedded_schema import NO_SCHEMA, Run, SchemaHeads, may_have_schema
from replicator_source_kafka.formats.json_records.json_objects import Objects
from replicator_source_kafka.formats.json_records.payloads import keys_as, keys_by, read_objects
from replicator_source_kafka.formats.json_records.record_keys import RecordKeys
from replicator_source_kafka.formats.unavailable import UnavailableValues
from replicator_source_kafka.records import Records
from replicator_source_kafka.types.standard_types import codec_of


class DebeziumJson(Format):
    """Debezium's envelopes as Connect's JsonConverter writes them, with or without `schemas.enable`.

    Records that Debezium writes beside changes are skipped.
    """

    def __init__(self, config: KafkaConfig, rule: OutOfRange) -> None:
        self._config = config
        self._rule = rule
        self._heads = SchemaHeads()
        self._keys = RecordKeys()
        self._envelopes: dict[tuple[bytes, tuple[str, ...]], _Compiled] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the settings only, not the caches."""
        return type(self), (self._config, self._rule)

    def decode(self, records: Records) -> Decoded:
        """The changes in `records`."""
        poison: list[Poison] = []
        parts: list[Part] = []
        bad: list[tuple[int, str]] = []
        index = np.flatnonzero(records.value.is_valid().to_numpy(zero_copy_only=False))
        values = records.value if len(index) == len(records) else records.value.drop_null()
        embedded = may_have_schema(values)
        plain = index[~embedded]
        if len(plain):
            values, index = values.filter(pa.array(embedded)), index[embedded]
        for run in self._heads.runs(values, index, bad):
            if not is_metadata_schema(run.kind.name):
                parts.extend(self._embedded(records, run, poison, bad))
        # A record without a schema may have columns named schema and payload.
        plain = np.sort(np.concatenate([plain, [i for i, reason in bad if reason == NO_SCHEMA]]).astype(np.int64))
        poison.extend(Poison(i, "RPL-3900", reason) for i, reason in bad if reason != NO_SCHEMA)
        parts.extend(self._plain(records, plain, poison))
        return Decoded(parts, sorted(poison, key=lambda p: p.index), lone_tombstones(records, parts))

    def deletes(self, records: Records, index: Int64s, known: TableSchema, poison: list[Poison]) -> list[Part]:
        """See `Format.deletes`; keys may have schemas or not."""
        maker = FlatRowMaker(
            records,
            lambda codecs, which: keys_by(codecs, records.key.take(pa.array(which))),
            UnavailableValues(self._config.unavailable_value),
            self._rule,
            poison,
        )
        reader = TombstoneReader(maker, known, self._hints(str(known.table)), lambda kind, by, _: codec_of(kind, by))
        return reader.deletes(self._keys.groups(records.key, index, poison), index)

    def _embedded(self, records: Records, run: Run, poison: list[Poison], bad: list[tuple[int, str]]) -> list[Part]:
        """The changes of records with one schema; their keys may have several."""
        parts = []
        for key in self._keys.groups(records.key, run.index, poison):
            positions = key.positions
            all_of_them = len(positions) == len(run.index)
            index = run.index if all_of_them else run.index[positions]
            compiled = self._compiled(run, tuple(key.kinds))
            if isinstance(compiled, str):
                poison.extend(Poison(int(i), "RPL-3915", compiled) for i in index)
                continue
            texts = run.texts if all_of_them else run.texts.take(pa.array(positions))
            for envelope, found in compiled.read(run, texts):
                bad.extend((int(index[i]), reason) for i, reason in found.bad)
                parts.extend(self._changes(records, envelope, found, index, poison))
        return parts

    def _plain(self, records: Records, index: Int64s, poison: list[Poison]) -> list[Part]:
        """The changes of records without schemas."""
        parts: list[Part] = []
        if not len(index):
            return parts
        for key in self._keys.groups(records.key, index, poison):
            mine = index[key.positions]
            texts = records.value.take(pa.array(mine))
            for envelope, objects, origin in plain_envelopes(texts, mine, key.kinds, self._hints, poison):
                poison.extend(Poison(int(origin[i]), "RPL-3900", reason) for i, reason in objects.bad)
                parts.extend(self._changes(records, envelope, objects, origin, poison))
        return parts

    def _hints(self, table: str) -> Mapping[str, str]:
        return self._config.column_types.get(table, {})

    def _changes(
        self, records: Records, envelope: Envelope, objects: Objects, index: Int64s, poison: list[Poison]
    ) -> list[Part]:
        block = Block(
            envelope,
            objects.rows,
            index[objects.index],
            lambda which: _read_keys(records, which, envelope),
            records.position,
            UnavailableValues(self._config.unavailable_value),
            self._rule,
        )
        return changes_of(block, poison)

    def _compiled(self, run: Run, key: tuple[str, ...]) -> _Compiled:
        """The compiled schema, or why the records are not Debezium's."""
        cached = self._envelopes.get((run.identity, key))
        if cached is None:
            try:
                cached = _Envelopes.of(run, key)
            except NotAnEnvelope as error:
                cached = str(error)
            if len(self._envelopes) > 1024:
                self._envelopes.clear()
            self._envelopes[run.identity, key] = cached
        return cached


@dataclass(frozen=True, slots=True)
class _Envelopes:
    """A schema's envelope in two variants: with decimals in base64, and with decimals as numbers."""

    base64: Envelope
    numeric: Envelope
    form: DecimalFormat | None

    @classmethod
    def of(cls, run: Run, key: tuple[str, ...]) -> _Envelopes:
        kind, usual = run.kind, compile_envelope(run.kind, key)
        form = decimal_format(kind, ordered=run.headless)
        if form is None:
            return cls(usual, usual, form)
        return cls(
            usual, compile_envelope(kind, key, lambda _, column, connector: codec_of(column, connector, True)), form
        )

    def read(self, run: Run, texts: pa.Array) -> Iterator[tuple[Envelope, Objects]]:
        """The objects in the texts, with the variant of the envelope that reads them."""

        def read(numeric: bool, some: pa.Array, strict: bool) -> Objects:
            return read_objects((self.numeric if numeric else self.base64).wire, run, some, strict)

        if self.form is None:
            yield self.base64, read(False, texts, False)
            return
        for numeric, found in self.form.readings(texts, read):
            yield self.numeric if numeric else self.base64, found


_Compiled = _Envelopes | str
"""Envelopes, or why the records are not Debezium's."""


def _read_keys(records: Records, which: Int64s, envelope: Envelope) -> pa.StructArray | None:
    """The keys of some records, all with the same names."""
    if not envelope.key:
        return None
    wire = pa.struct([pa.field(name, envelope.codecs[name].wire) for name in envelope.key])
    return keys_as(wire, records.key.take(pa.array(which)))
