"""Reads records without a value in topics of envelopes: deletes of the rows that their keys name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import Int64s
from replicator_sdk.datatype import DataType
from replicator_sdk.event import DMLOperation
from replicator_sdk.schema import TableSchema
from replicator_source_kafka.formats.flat.flat_rows import FlatRowMaker
from replicator_source_kafka.formats.format import Part, Poison
from replicator_source_kafka.formats.json_records.record_keys import KeyGroup
from replicator_source_kafka.records import Records
from replicator_source_kafka.types.column_codec import Codec
from replicator_source_kafka.types.connect_type import ConnectType
from replicator_source_kafka.types.type_hints import hinted_codec

_CONNECTORS = ("", "mysql", "postgresql")
"""Connectors with different types; a key does not contain its connector."""
_DELETE = int(DMLOperation.DELETE)
MakeCodec = Callable[[ConnectType, str, "str | None"], Codec]
"""Returns the codec of a key's column, by its type, the connector and the configured type."""


def lone_tombstones(records: Records, parts: Iterable[Part]) -> Int64s:
    """The tombstones with a key, except those directly after the delete of their row."""
    gone = records.value.is_null().to_numpy(zero_copy_only=False) & records.key.is_valid().to_numpy(
        zero_copy_only=False
    )
    found = np.flatnonzero(gone)
    if not len(found):
        return found
    deletes = np.zeros(len(records) + 1, np.bool_)  # index -1 is the position before the first record
    for part in parts:
        deletes[part.index[part.op.to_numpy() == _DELETE]] = True
    own, before = (records.key.take(pa.array(places)) for places in (found, np.maximum(found - 1, 0)))
    follows = deletes[found - 1] & pc.equal(own, before).fill_null(False).to_numpy(zero_copy_only=False)
    lone: Int64s = found[~follows]
    return lone


@dataclass(frozen=True, slots=True)
class TombstoneReader:
    """Reads the keys of tombstones of one table.

    Attributes:
        maker: Creates deletes.
        known: The table.
        hints: The configured types of its columns.
        make: Returns codecs of keys with a schema.
    """

    maker: FlatRowMaker
    known: TableSchema
    hints: Mapping[str, str]
    make: MakeCodec

    def deletes(self, groups: Iterable[KeyGroup], index: Int64s) -> list[Part]:
        """The deletes; keys with other names or types than the table's are added to the maker's poison."""
        found = []
        for key in groups:
            mine = index[key.positions]
            codecs = self._codecs(key) if key.kinds.keys() == set(self.known.primary_key) else None
            if codecs is None:
                reason = "has no value, and a key that is not the table's"
                self.maker.poison.extend(Poison(int(i), "RPL-3917", reason, self.known.table) for i in mine)
            else:
                made = self.maker.tombstones(self.known.table, mine, key, codecs)
                found.append(replace(made, is_of_keys=True))
        return [part for part in found if len(part)]

    def _codecs(self, key: KeyGroup) -> dict[str, Codec] | None:
        """Codecs that convert the key's columns to the table's types; None if there are none."""
        for connector in _CONNECTORS:
            try:
                codecs = self._made(key, connector)
            except ValueError:  # a hint that does not fit
                return None
            if all(_holds(self.known[name].type, codec.kind) for name, codec in codecs.items()):
                return codecs
        return None

    def _made(self, key: KeyGroup, connector: str) -> dict[str, Codec]:
        if key.kind is None:
            return {name: hinted_codec(kind, self.hints.get(name)) for name, kind in key.kinds.items()}
        return {name: self.make(kind, connector, self.hints.get(name)) for name, kind in key.kind.fields}


def _holds(known: DataType, seen: DataType) -> bool:
    """Whether keys of the type `seen` fit the table: the same type, or numbers that the table's type holds."""
    if str(known) == str(seen):
        return True
    one, other = known.arrow, seen.arrow
    if pa.types.is_integer(other):
        return bool(pa.types.is_integer(one) or pa.types.is_floating(one))
    return any(bool(kind(one) and kind(other)) for kind in (pa.types.is_floating, pa.types.is_decimal))
