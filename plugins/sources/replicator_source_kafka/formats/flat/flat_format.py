"""The common part of the flat formats, whose records have the row itself as their value.

`flattened-…` are records after Debezium's ExtractNewRecordState, `upsert-…` are plain keyed records. In both, a record
without a value deletes its key.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from replicator_sdk.batch import Int64s
from replicator_sdk.config import OutOfRange
from replicator_sdk.schema import TableId
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.formats.flat.flat_rows import FlatBlock, FlatRowMaker, is_added, key_codecs
from replicator_source_kafka.formats.flat.routing import named_tables, routed_tables, text_field
from replicator_source_kafka.formats.flat.table_name import table_of_topic
from replicator_source_kafka.formats.format import Decoded, Format, Part, Poison
from replicator_source_kafka.formats.json_records.record_keys import KeyGroup
from replicator_source_kafka.formats.unavailable import UnavailableValues
from replicator_source_kafka.records import Records
from replicator_source_kafka.types.column_codec import Codec
from replicator_source_kafka.types.connect_type import ConnectType


class FlatFormat(Format):
    """Keyed rows. Records without a key, or without a table, are poison."""

    def __init__(self, config: KafkaConfig, rule: OutOfRange) -> None:
        self._config = config
        self._rule = rule

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the settings only, not the caches."""
        return type(self), (self._config, self._rule)

    @abstractmethod
    def keys(self, records: Records, index: Int64s, poison: list[Poison]) -> Iterator[KeyGroup]:
        """The records at `index` by the names in their keys; others are added to `poison`."""

    @abstractmethod
    def read_keys(self, records: Records, codecs: Mapping[str, Codec], index: Int64s) -> pa.StructArray:
        """The keys at `index` as structs of wire values; null for a key that cannot be read."""

    @abstractmethod
    def blocks(self, records: Records, key: KeyGroup, index: Int64s, poison: list[Poison]) -> Iterator[FlatBlock]:
        """The rows at `index`, which have values, by schema and table; others are added to `poison`."""

    def decode(self, records: Records) -> Decoded:
        """The changes in `records`."""
        poison: list[Poison] = []
        parts: list[Part] = []
        unavailable = UnavailableValues(self._config.unavailable_value)
        maker = FlatRowMaker(
            records,
            lambda *key: self.read_keys(records, *key),
            unavailable,
            self._rule,
            poison,
            dict(self._config.operations.meanings()),
            self._config.operation_field or "",
        )
        for key in self.keys(records, np.arange(len(records)), poison):
            if not key.kinds:
                poison.extend(Poison(int(i), "RPL-3907", "has no key") for i in key.positions)
                continue
            present = records.value.take(pa.array(key.positions)).is_valid().to_numpy(zero_copy_only=False)
            if not present.all():
                parts.extend(self._tombstones(maker, key, key.positions[~present]))
            parts.extend(map(maker.part, self.blocks(records, key, key.positions[present], poison)))
        if poison and not self._config.routes_records:
            table = table_of_topic(records.topic, self._config.table_from_topic)
            poison = [replace(each, table=table) for each in poison]
        return Decoded([p for p in parts if len(p) or len(p.truncates)], sorted(poison, key=lambda p: p.index))

    def _tombstones(self, maker: FlatRowMaker, key: KeyGroup, index: Int64s) -> Iterator[Part]:
        if self._config.table_field:
            reason = "has no value, and so no tableField"
            maker.poison.extend(Poison(int(i), "RPL-3909", reason) for i in index)
            return
        nothing = pa.nulls(len(index), pa.string())
        for table, positions in self._routed(maker.records.topic, nothing, index, maker.poison):
            yield maker.tombstones(table, index[positions], key, key_codecs(key, self.hints(table)))

    def tables(
        self, records: Records, rows: pa.StructArray | None, index: Int64s, poison: list[Poison]
    ) -> Iterator[tuple[TableId, Int64s]]:
        """The positions of each table; rows that are of no table are added to `poison`."""
        values = pa.nulls(len(index), pa.string()) if rows is None else text_field(rows, self._config.table_field)
        return self._routed(records.topic, values, index, poison)

    def operations(self, rows: pa.StructArray) -> pa.StringArray | None:
        """What rows say they do; None where no field does."""
        return None if self._config.operation_field is None else text_field(rows, self._config.operation_field)

    def _routed(
        self, topic: str, values: pa.Array, index: Int64s, poison: list[Poison]
    ) -> Iterator[tuple[TableId, Int64s]]:
        if self._config.routes:
            yield from routed_tables(self._config.routes, values, index, poison, field=self._config.table_field or "")
        elif self._config.table_field:
            yield from named_tables(values, topic, index, poison)
        else:
            yield table_of_topic(topic, self._config.table_from_topic), np.arange(len(index))

    def columns(self, fields: Mapping[str, ConnectType], key: KeyGroup) -> dict[str, ConnectType]:
        """The fields without those that ExtractNewRecordState adds."""
        flattened = self._config.format.startswith("flattened-")
        return {name: kind for name, kind in fields.items() if not (flattened and is_added(name, key))}

    def hints(self, table: TableId) -> Mapping[str, str]:
        """The configured types of the table's columns."""
        return self._config.column_types.get(str(table), {})
