"""Reads keys of records whose values have schemas in a registry: such keys have one as well, or are JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from replicator_sdk.batch import Int64s
from replicator_source_kafka.formats.format import Poison
from replicator_source_kafka.formats.json_records.payloads import keys_as
from replicator_source_kafka.formats.json_records.record_keys import KeyGroup, RecordKeys
from replicator_source_kafka.formats.schema_registry.framing import names_schema
from replicator_source_kafka.formats.schema_registry.registry_schemas import RegistrySchemas
from replicator_source_kafka.records import Records
from replicator_source_kafka.types.column_codec import Codec


@dataclass(slots=True)
class RegistryKeys:
    """Groups records by the names in their keys, and reads keys."""

    schemas: RegistrySchemas
    json: RecordKeys = field(default_factory=RecordKeys)

    def groups(self, records: Records, index: Int64s, poison: list[Poison]) -> Iterator[KeyGroup]:
        """The records at `index` by the names in their keys; others are added to `poison`."""
        mine = names_schema(records, "key", index)
        others = np.flatnonzero(~mine)
        if len(others):
            for group in self.json.groups(records.key, index[others], poison):
                yield KeyGroup(group.kinds, others[group.positions], group.kind)
        places = np.flatnonzero(mine)
        for run in self.schemas.runs(records, "key", index[places], poison):
            kinds = {name: kind.base for name, kind in run.schema.kind.fields}
            if kinds:
                yield KeyGroup(kinds, places[run.positions], run.schema.kind)
            else:
                gone = index[places[run.positions]]
                poison.extend(Poison(int(i), "RPL-3916", "has a key whose schema is not a record") for i in gone)

    def read(self, records: Records, codecs: Mapping[str, Codec], index: Int64s) -> pa.StructArray:
        """The keys at `index` as structs of wire values; null for a key that cannot be read."""
        wire = pa.struct([pa.field(name, codec.wire) for name, codec in codecs.items()])
        if not names_schema(records, "key", index).all():
            return keys_as(wire, records.key.take(pa.array(index)))
        found: list[pa.StructArray] = []
        order = np.full(len(index), -1)
        count = 0
        for run in self.schemas.runs(records, "key", index, []):
            objects = self.schemas.language.read(run.schema, wire, run.data)
            order[run.positions[objects.index]] = count + np.arange(len(objects.index))
            count += len(objects.index)
            found.append(objects.rows)
        if not found:
            return pa.nulls(len(index), wire)
        return pa.concat_arrays(found).take(pa.array(order, mask=order < 0))
