"""`flattened-json` and `upsert-json`: rows as JSON, with schemas or without."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from replicator_sdk.batch import Int64s
from replicator_sdk.config import OutOfRange
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.formats.debezium_metadata import is_metadata_schema
from replicator_source_kafka.formats.flat.flat_format import FlatFormat
from replicator_source_kafka.formats.flat.flat_rows import FlatBlock
from replicator_source_kafka.formats.format import Poison
from replicator_source_kafka.formats.json_records.decimal_format import decimal_format
from replicator_source_kafka.formats.json_records.embedded_schema import (
    HEAD,
    NO_SCHEMA,
    Run,
    SchemaHeads,
    may_have_schema,
)
from replicator_source_kafka.formats.json_records.inferred_json import InferredReader
from replicator_source_kafka.formats.json_records.json_objects import ObjectReader, Objects
from replicator_source_kafka.formats.json_records.json_value import loads
from replicator_source_kafka.formats.json_records.payloads import keys_by, read_objects
from replicator_source_kafka.formats.json_records.record_keys import KeyGroup, RecordKeys
from replicator_source_kafka.records import Records
from replicator_source_kafka.types.column_codec import Codec
from replicator_source_kafka.types.connect_type import ConnectType
from replicator_source_kafka.types.standard_types import codec_of


class FlatJson(FlatFormat):
    """Rows as JSON objects."""

    def __init__(self, config: KafkaConfig, rule: OutOfRange) -> None:
        super().__init__(config, rule)
        self._heads = SchemaHeads()
        self._keys = RecordKeys()

    def keys(self, records: Records, index: Int64s, poison: list[Poison]) -> Iterator[KeyGroup]:
        """By the names in their keys, which may embed schemas."""
        return self._keys.groups(records.key, index, poison)

    def read_keys(self, records: Records, codecs: Mapping[str, Codec], index: Int64s) -> pa.StructArray:
        """The keys, with or without a schema."""
        return keys_by(codecs, records.key.take(pa.array(index)))

    def blocks(self, records: Records, key: KeyGroup, index: Int64s, poison: list[Poison]) -> Iterator[FlatBlock]:
        """The rows, with embedded schemas and without."""
        values = records.value.take(pa.array(index))
        embedded = may_have_schema(values)
        bad: list[tuple[int, str]] = []
        some, where = values.filter(pa.array(embedded)), index[embedded]
        for run in self._heads.runs(some, where, bad):
            if not is_metadata_schema(run.kind.name):
                yield from self._embedded(records, run, key, poison)
        poison.extend(Poison(i, "RPL-3900", reason) for i, reason in bad if reason != NO_SCHEMA)
        plain = [index[~embedded], np.array([i for i, reason in bad if reason == NO_SCHEMA], np.int64)]
        rest = np.sort(np.concatenate(plain))
        if len(rest):
            yield from self._plain(records, key, rest, poison)

    def _embedded(self, records: Records, run: Run, key: KeyGroup, poison: list[Poison]) -> Iterator[FlatBlock]:
        """Rows with one schema."""
        if run.kind.base != "struct" or not run.kind.fields:
            poison.extend(Poison(int(i), "RPL-3915", "is not a row: its schema is not a struct") for i in run.index)
            return
        variants = [
            {name: codec_of(field, "", numeric) for name, field in run.kind.fields} for numeric in (False, True)
        ]

        def read(numeric: bool, texts: pa.Array, strict: bool) -> Objects:
            return read_objects(
                pa.struct([pa.field(n, c.wire) for n, c in variants[numeric].items()]), run, texts, strict
            )

        form = decimal_format(run.kind, ordered=False)
        readings = [(False, read(False, run.texts, False))] if form is None else form.readings(run.texts, read)
        columns = self.columns(dict(run.kind.fields), key)
        for numeric, found in readings:
            poison.extend(Poison(int(run.index[i]), "RPL-3900", reason) for i, reason in found.bad)
            index = run.index[found.index]
            for table, positions in self.tables(records, found.rows, index, poison):
                rows = found.rows if len(positions) == len(index) else found.rows.take(pa.array(positions))
                yield FlatBlock(
                    table,
                    columns,
                    variants[numeric],
                    rows,
                    index[positions],
                    key,
                    self.hints(table),
                    self.operations(rows),
                )

    def _plain(self, records: Records, key: KeyGroup, index: Int64s, poison: list[Poison]) -> Iterator[FlatBlock]:
        """Rows without a schema: grouped by table, then read with the types that their values have."""
        texts = records.value.take(pa.array(index))
        # Read by themselves, as text: what the others of a block have in these fields says nothing of a record.
        fields = dict.fromkeys(filter(None, [self._config.table_field, self._config.operation_field]))
        wire = pa.struct([pa.field(name, pa.string()) for name in fields])
        routes = ObjectReader(wire, HEAD, b"}", loads).read(texts) if fields else None
        if routes is not None:
            poison.extend(Poison(int(index[i]), "RPL-3900", reason) for i, reason in routes.bad)
            index = index[routes.index]
        operations = None if routes is None else self.operations(routes.rows)
        for table, positions in self.tables(records, routes.rows if routes else None, index, poison):
            mine = index[positions]
            reader = InferredReader(("after",), (), HEAD + b'{"after":', b"}}", _as_after, self.hints(table), {})
            try:
                found = reader.read(records.value.take(pa.array(mine)))
            except ValueError as error:
                poison.extend(Poison(int(i), "RPL-3904", f"does not fit columnTypes: {error}", table) for i in mine)
                continue
            for i, reason in found.objects.bad:
                poison.append(Poison(int(mine[i]), "RPL-3900", reason.replace(" at after.", " at "), table))
            rows = found.objects.rows.field("after")
            there = np.flatnonzero(rows.is_valid().to_numpy(zero_copy_only=False))
            if len(there) < len(rows):
                nothing = np.setdiff1d(np.arange(len(rows)), there)
                gone = mine[found.objects.index[nothing]]
                poison.extend(Poison(int(i), "RPL-3915", "is not a row: its value is null") for i in gone)
                rows = rows.take(pa.array(there))
            kinds = self.columns({n: ConnectType(c.kind.name) for n, c in found.codecs.items()}, key)
            read = positions[found.objects.index[there]]
            done = None if operations is None else operations.take(pa.array(read))
            yield FlatBlock(table, kinds, found.codecs, rows, index[read], key, self.hints(table), done)


def _as_after(text: bytes) -> dict[str, Any]:
    return {"after": loads(text)}
