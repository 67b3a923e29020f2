"""`debezium-json`: Debezium's envelopes as JSON, with the schema in every record or without any."""

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
from replicator_source_kafka.formats.change_rows import Block, changes_of
from replicator_source_kafka.formats.decimal_form import DecimalForm, decimal_form
from replicator_source_kafka.formats.embedded_schema import NO_SCHEMA, Run, SchemaHeads, may_have_schema
from replicator_source_kafka.formats.envelope import Envelope, NotAnEnvelope, compile_envelope, is_quiet
from replicator_source_kafka.formats.flat_rows import FlatMaker
from replicator_source_kafka.formats.format import Decoded, Format, Part, Poison
from replicator_source_kafka.formats.json_objects import Objects
from replicator_source_kafka.formats.payloads import keys_as, keys_by, read_objects
from replicator_source_kafka.formats.plain_envelope import plain_envelopes
from replicator_source_kafka.formats.record_keys import RecordKeys
from replicator_source_kafka.formats.tombstones import TombstoneReader, lone_tombstones
from replicator_source_kafka.formats.unavailable import Unavailable
from replicator_source_kafka.records import Records
from replicator_source_kafka.types.mapping import codec_of


class DebeziumJson(Format):
    """Debezium's envelopes as Connect's JsonConverter writes them, with or without `schemas.enable`.

    What Debezium writes beside changes says nothing about rows.
    """

    def __init__(self, config: KafkaConfig, rule: OutOfRange) -> None:
        self._config = config
        self._rule = rule
        self._heads = SchemaHeads()
        self._keys = RecordKeys()
        self._envelopes: dict[tuple[bytes, tuple[str, ...]], _Compiled] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """What it has seen stays behind."""
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
            if not is_quiet(run.kind.name):
                parts.extend(self._embedded(records, run, poison, bad))
        # A plain record may have columns of these names.
        plain = np.sort(np.concatenate([plain, [i for i, reason in bad if reason == NO_SCHEMA]]).astype(np.int64))
        poison.extend(Poison(i, "RPL-3900", reason) for i, reason in bad if reason != NO_SCHEMA)
        parts.extend(self._plain(records, plain, poison))
        return Decoded(parts, sorted(poison, key=lambda p: p.index), lone_tombstones(records, parts))

    def deletes(self, records: Records, index: Int64s, known: TableSchema, poison: list[Poison]) -> list[Part]:
        """By keys with schemas, or without."""
        maker = FlatMaker(
            records,
            lambda codecs, which: keys_by(codecs, records.key.take(pa.array(which))),
            Unavailable(self._config.unavailable_value),
            self._rule,
            poison,
        )
        reader = TombstoneReader(maker, known, self._hints(str(known.table)), lambda kind, by, _: codec_of(kind, by))
        return reader.deletes(self._keys.groups(records.key, index, poison), index)

    def _embedded(self, records: Records, run: Run, poison: list[Poison], bad: list[tuple[int, str]]) -> list[Part]:
        """The changes of records with one schema; their keys may still be of several."""
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
            records.place,
            Unavailable(self._config.unavailable_value),
            self._rule,
        )
        return changes_of(block, poison)

    def _compiled(self, run: Run, key: tuple[str, ...]) -> _Compiled:
        """The compiled schema, or why the records are none of Debezium's."""
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
    """A schema's envelope, with decimals in base64 and, where it has any, as numbers."""

    base64: Envelope
    numeric: Envelope
    form: DecimalForm | None

    @classmethod
    def of(cls, run: Run, key: tuple[str, ...]) -> _Envelopes:
        kind, usual = run.kind, compile_envelope(run.kind, key)
        form = decimal_form(kind, ordered=run.headless)
        if form is None:
            return cls(usual, usual, form)
        return cls(
            usual, compile_envelope(kind, key, lambda _, column, connector: codec_of(column, connector, True)), form
        )

    def read(self, run: Run, texts: pa.Array) -> Iterator[tuple[Envelope, Objects]]:
        """The texts, with the envelope that each was written by."""

        def read(numeric: bool, some: pa.Array, strict: bool) -> Objects:
            return read_objects((self.numeric if numeric else self.base64).wire, run, some, strict)

        if self.form is None:
            yield self.base64, read(False, texts, False)
            return
        for numeric, found in self.form.readings(texts, read):
            yield self.numeric if numeric else self.base64, found


_Compiled = _Envelopes | str
"""Or why the records are none of Debezium's."""


def _read_keys(records: Records, which: Int64s, envelope: Envelope) -> pa.StructArray | None:
    """The keys of some records, which have the same names."""
    if not envelope.key:
        return None
    wire = pa.struct([pa.field(name, envelope.codecs[name].wire) for name in envelope.key])
    return keys_as(wire, records.key.take(pa.array(which)))
