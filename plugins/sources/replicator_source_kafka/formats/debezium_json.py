"""`debezium-json`: Debezium's envelopes as JSON, with the schema in every record or without any."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from replicator_sdk.batch import Int64s
from replicator_sdk.config import OutOfRange
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.formats.change_rows import Block, changes_of
from replicator_source_kafka.formats.embedded_schema import HEAD, Run, SchemaHeads, member
from replicator_source_kafka.formats.envelope import Envelope, NotAnEnvelope, compile_envelope, is_quiet
from replicator_source_kafka.formats.format import Decoded, Format, Part, Poison
from replicator_source_kafka.formats.json_objects import ObjectReader, Objects
from replicator_source_kafka.formats.unavailable import Unavailable
from replicator_source_kafka.records import Records
from replicator_source_kafka.types.connect_type import ConnectType


class DebeziumJson(Format):
    """Debezium's envelopes as Connect's JsonConverter writes them with `schemas.enable`.

    Tombstones and what Debezium writes beside changes say nothing about rows.
    """

    def __init__(self, config: KafkaConfig, rule: OutOfRange) -> None:
        self._config = config
        self._rule = rule
        self._heads = SchemaHeads()
        self._key_heads = SchemaHeads()
        self._envelopes: dict[tuple[bytes, tuple[str, ...]], Envelope | str] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """What it has seen stays behind."""
        return type(self), (self._config, self._rule)

    def decode(self, records: Records) -> Decoded:
        """The changes in `records`."""
        poison: list[Poison] = []
        parts: list[Part] = []
        bad: list[tuple[int, str]] = []
        present = np.asarray(records.value.is_valid().to_numpy(zero_copy_only=False))
        index = np.flatnonzero(present)
        values = records.value if len(index) == len(records) else records.value.drop_null()
        for run in self._heads.runs(values, index, bad):
            if not is_quiet(run.kind.name):
                parts.extend(self._run(records, run, poison, bad))
        poison.extend(Poison(i, "RPL-3900", reason) for i, reason in bad)
        return Decoded(parts, sorted(poison, key=lambda p: p.index))

    def _run(self, records: Records, run: Run, poison: list[Poison], bad: list[tuple[int, str]]) -> list[Part]:
        """The changes of records with one schema; their keys may still be of several."""
        keys = records.key.take(pa.array(run.index))
        keyless = np.flatnonzero(keys.is_null().to_numpy(zero_copy_only=False))
        parts = self._one_key(records, run, keyless, None, poison, bad) if len(keyless) else []
        keyed = np.setdiff1d(np.arange(len(keys)), keyless) if len(keyless) else np.arange(len(keys))
        key_bad: list[tuple[int, str]] = []
        if len(keyed):
            there = keys.drop_null() if len(keyless) else keys
            for key_run in self._key_heads.runs(there, keyed, key_bad):
                parts.extend(self._one_key(records, run, key_run.index, key_run.kind, poison, bad))
        poison.extend(Poison(int(run.index[i]), "RPL-3902", "has a key without a schema") for i, _ in key_bad)
        return parts

    def _one_key(
        self,
        records: Records,
        run: Run,
        positions: Int64s,
        key: ConnectType | None,
        poison: list[Poison],
        bad: list[tuple[int, str]],
    ) -> list[Part]:
        """The changes of records with one schema and one key schema."""
        all_of_them = len(positions) == len(run.index)
        index = run.index if all_of_them else run.index[positions]
        envelope = self._envelope(run, tuple(name for name, _ in key.fields) if key else ())
        if isinstance(envelope, str):
            poison.extend(Poison(int(i), "RPL-3901", envelope) for i in index)
            return []
        found = read_objects(envelope.wire, run, run.texts if all_of_them else run.texts.take(pa.array(positions)))
        bad.extend((int(index[i]), reason) for i, reason in found.bad)
        block = Block(
            envelope,
            found.rows,
            index[found.index],
            lambda which: self._keys(records, which, envelope),
            records.place,
            Unavailable(self._config.unavailable_value),
            self._rule,
        )
        return changes_of(block, poison)

    def _envelope(self, run: Run, key: tuple[str, ...]) -> Envelope | str:
        """The compiled schema, or why the records are none of Debezium's."""
        cached = self._envelopes.get((run.identity, key))
        if cached is None:
            try:
                cached = compile_envelope(run.kind, key)
            except NotAnEnvelope as error:
                cached = str(error)
            if len(self._envelopes) > 1024:
                self._envelopes.clear()
            self._envelopes[run.identity, key] = cached
        return cached

    def _keys(self, records: Records, which: Int64s, envelope: Envelope) -> pa.StructArray | None:
        """The keys of some records, which have one schema."""
        if not envelope.key:
            return None
        wire = pa.struct([pa.field(name, envelope.codecs[name].wire) for name in envelope.key])
        reader = ObjectReader(wire, b"", b"", lambda text: member(text, "payload"))
        found = reader.read(records.key.take(pa.array(which)))
        # A key that cannot be read leaves a NULL, which becomes poison.
        order = np.full(len(which), -1)
        order[found.index] = np.arange(len(found.index))
        return found.rows.take(pa.array(order, mask=order < 0))


def read_objects(wire: pa.StructType, run: Run, texts: pa.Array) -> Objects:
    """The payloads of records with an embedded schema."""
    head = HEAD if run.headless else b""
    return ObjectReader(wire, head, b"", lambda text: member(_whole(text, run.headless), "payload")).read(texts)


def _whole(text: bytes, headless: bool) -> bytes:
    """A record as it was, but for its schema."""
    return b'{"schema":{},"payload":' + text if headless else text
