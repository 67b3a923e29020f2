"""`flattened-json` (Debezium's ExtractNewRecordState) and `upsert-json` (plain keyed records), with schemas or without.

A record without a value is a delete of its key in both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from replicator_sdk.batch import Int64s
from replicator_sdk.config import OutOfRange
from replicator_sdk.schema import TableId
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.formats.embedded_schema import HEAD, NO_SCHEMA, Run, SchemaHeads, may_have_schema
from replicator_source_kafka.formats.envelope import is_quiet
from replicator_source_kafka.formats.flat_rows import FlatBlock, FlatMaker, is_added
from replicator_source_kafka.formats.format import Decoded, Format, Part, Poison
from replicator_source_kafka.formats.json_objects import ObjectReader
from replicator_source_kafka.formats.json_value import loads
from replicator_source_kafka.formats.natural import NaturalReader
from replicator_source_kafka.formats.payloads import read_objects
from replicator_source_kafka.formats.record_keys import KeyGroup, RecordKeys
from replicator_source_kafka.formats.table_name import named, table_of_topic
from replicator_source_kafka.formats.unavailable import Unavailable
from replicator_source_kafka.records import Records
from replicator_source_kafka.types.connect_type import ConnectType
from replicator_source_kafka.types.mapping import codec_of


class FlatJson(Format):
    """Rows as they are, keyed. Records without a key, or of no table, are poison."""

    def __init__(self, config: KafkaConfig, rule: OutOfRange) -> None:
        self._config = config
        self._rule = rule
        self._heads = SchemaHeads()
        self._keys = RecordKeys()

    def __reduce__(self) -> tuple[Any, ...]:
        """What it has seen stays behind."""
        return type(self), (self._config, self._rule)

    def decode(self, records: Records) -> Decoded:
        """The changes in `records`."""
        poison: list[Poison] = []
        parts: list[Part] = []
        unavailable = Unavailable(self._config.unavailable_value)
        maker = FlatMaker(records, unavailable, self._rule, poison)
        for key in self._keys.groups(records.key, np.arange(len(records)), poison):
            if not key.kinds:
                poison.extend(Poison(int(i), "RPL-3907", "has no key") for i in key.positions)
                continue
            values = records.value.take(pa.array(key.positions))
            present = values.is_valid().to_numpy(zero_copy_only=False)
            if not present.all():
                parts.extend(self._tombstones(maker, key, key.positions[~present]))
            parts.extend(
                map(maker.part, self._blocks(records, key, key.positions[present], values.drop_null(), poison))
            )
        return Decoded([p for p in parts if len(p) or len(p.truncates)], sorted(poison, key=lambda p: p.index))

    def _tombstones(self, maker: FlatMaker, key: KeyGroup, index: Int64s) -> Iterator[Part]:
        if self._config.table_field:
            reason = "has no value, so that its tableField is not known"
            maker.poison.extend(Poison(int(i), "RPL-3909", reason) for i in index)
            return
        table = table_of_topic(maker.records.topic, self._config.table_from_topic)
        yield maker.tombstones(table, index, key, self._hints(table))

    def _blocks(
        self, records: Records, key: KeyGroup, index: Int64s, values: pa.Array, poison: list[Poison]
    ) -> Iterator[FlatBlock]:
        """The rows by schema and table."""
        embedded = may_have_schema(values)
        bad: list[tuple[int, str]] = []
        some, where = values.filter(pa.array(embedded)), index[embedded]
        for run in self._heads.runs(some, where, bad):
            if not is_quiet(run.kind.name):
                yield from self._embedded(records, run, key, poison)
        poison.extend(Poison(i, "RPL-3900", reason) for i, reason in bad if reason != NO_SCHEMA)
        plain = [index[~embedded], np.array([i for i, reason in bad if reason == NO_SCHEMA], np.int64)]
        rest = np.sort(np.concatenate(plain))
        if len(rest):
            yield from self._plain(records, key, rest, poison)

    def _embedded(self, records: Records, run: Run, key: KeyGroup, poison: list[Poison]) -> Iterator[FlatBlock]:
        """Rows with one schema."""
        if run.kind.base != "struct" or not run.kind.fields:
            poison.extend(Poison(int(i), "RPL-3915", "is no row: its schema is no struct") for i in run.index)
            return
        codecs = {name: codec_of(field) for name, field in run.kind.fields}
        wire = pa.struct([pa.field(name, codec.wire) for name, codec in codecs.items()])
        found = read_objects(wire, run, run.texts)
        poison.extend(Poison(int(run.index[i]), "RPL-3900", reason) for i, reason in found.bad)
        kinds = {name: field for name, field in run.kind.fields if not self._is_added(name, key)}
        index = run.index[found.index]
        for table, positions in self._tables(records, found.rows, index, poison):
            rows = found.rows if len(positions) == len(index) else found.rows.take(pa.array(positions))
            yield FlatBlock(table, kinds, codecs, rows, index[positions], key, self._hints(table))

    def _plain(self, records: Records, key: KeyGroup, index: Int64s, poison: list[Poison]) -> Iterator[FlatBlock]:
        """Rows without a schema: first by table, then each table's in their natural shape."""
        texts = records.value.take(pa.array(index))
        field = self._config.table_field
        wire = pa.struct([pa.field(field or "", pa.string())])
        routes = ObjectReader(wire, HEAD, b"}", loads).read(texts) if field else None
        if routes is not None:
            poison.extend(Poison(int(index[i]), "RPL-3900", reason) for i, reason in routes.bad)
            index = index[routes.index]
        for table, positions in self._tables(records, routes.rows if routes else None, index, poison):
            mine = index[positions]
            reader = NaturalReader(("after",), (), HEAD + b'{"after":', b"}}", _as_after, self._hints(table), {})
            try:
                found = reader.read(records.value.take(pa.array(mine)))
            except ValueError as error:
                poison.extend(Poison(int(i), "RPL-3904", f"does not fit columnTypes: {error}") for i in mine)
                continue
            poison.extend(Poison(int(mine[i]), "RPL-3900", reason) for i, reason in found.objects.bad)
            rows = found.objects.rows.field("after")
            there = np.flatnonzero(rows.is_valid().to_numpy(zero_copy_only=False))
            if len(there) < len(rows):
                nothing = np.setdiff1d(np.arange(len(rows)), there)
                gone = mine[found.objects.index[nothing]]
                poison.extend(Poison(int(i), "RPL-3915", "is no row: its value is null") for i in gone)
                rows = rows.take(pa.array(there))
            kinds = {n: ConnectType(c.kind.name) for n, c in found.codecs.items() if not self._is_added(n, key)}
            origin = mine[found.objects.index[there]]
            yield FlatBlock(table, kinds, found.codecs, rows, origin, key, self._hints(table))

    def _tables(
        self, records: Records, rows: pa.StructArray | None, index: Int64s, poison: list[Poison]
    ) -> Iterator[tuple[TableId, Int64s]]:
        """Each table's positions."""
        field = self._config.table_field
        if not field:
            yield table_of_topic(records.topic, self._config.table_from_topic), np.arange(len(index))
            return
        at = -1 if rows is None else rows.type.get_field_index(field)
        names = rows.field(at) if rows is not None and at >= 0 else pa.nulls(len(index))
        coded = names.cast(pa.string()).dictionary_encode(null_encoding="encode")
        places = coded.indices.to_numpy()
        for code, name in enumerate(coded.dictionary.to_pylist()):
            positions = np.flatnonzero(places == code)
            if name:
                yield named(name, records.topic), positions
            else:
                reason = "lacks the field that names its table (tableField)"
                poison.extend(Poison(int(i), "RPL-3912", reason) for i in index[positions])

    def _is_added(self, name: str, key: KeyGroup) -> bool:
        return self._config.format == "flattened-json" and is_added(name, key)

    def _hints(self, table: TableId) -> Mapping[str, str]:
        return self._config.column_types.get(str(table), {})


def _as_after(text: bytes) -> dict[str, Any]:
    return {"after": loads(text)}
