"""Records without a value in topics of envelopes: deletes of the rows that their keys name."""

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
from replicator_source_kafka.formats.flat_rows import FlatMaker
from replicator_source_kafka.formats.format import Part, Poison
from replicator_source_kafka.formats.record_keys import KeyGroup
from replicator_source_kafka.records import Records
from replicator_source_kafka.types.column_codec import Codec
from replicator_source_kafka.types.connect_type import ConnectType
from replicator_source_kafka.types.hint import hinted_codec

_CONNECTORS = ("", "mysql", "postgresql")
"""Those whose types differ; a key does not tell which one made it."""
_DELETE = int(DMLOperation.DELETE)
MakeCodec = Callable[[ConnectType, str, "str | None"], Codec]
"""How a key's column travels: its type, the connector, the settings' hint."""


def lone_tombstones(records: Records, parts: Iterable[Part]) -> Int64s:
    """The tombstones with a key, without those right behind the delete of their own row."""
    gone = records.value.is_null().to_numpy(zero_copy_only=False) & records.key.is_valid().to_numpy(
        zero_copy_only=False
    )
    found = np.flatnonzero(gone)
    if not len(found):
        return found
    deletes = np.zeros(len(records) + 1, np.bool_)  # the last one stands before the first record
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
        maker: Makes deletes.
        known: The table.
        hints: The types that the settings give its columns.
        make: Codecs of keys with a schema.
    """

    maker: FlatMaker
    known: TableSchema
    hints: Mapping[str, str]
    make: MakeCodec

    def deletes(self, groups: Iterable[KeyGroup], index: Int64s) -> list[Part]:
        """The deletes; keys of other names or types than the table's are added to the maker's poison."""
        found = []
        for key in groups:
            mine = index[key.positions]
            codecs = self._codecs(key) if key.kinds.keys() == set(self.known.primary_key) else None
            if codecs is None:
                reason = "has no value, and a key that is not the table's"
                self.maker.poison.extend(Poison(int(i), "RPL-3917", reason) for i in mine)
            else:
                made = self.maker.tombstones(self.known.table, mine, key, codecs)
                found.append(replace(made, is_of_keys=True))
        return [part for part in found if len(part)]

    def _codecs(self, key: KeyGroup) -> dict[str, Codec] | None:
        """How the key's columns travel so that they are of the table's types; None when they are not."""
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
    """Whether a key of the type `seen` is a key of the table: of the same type, or of numbers that are wider there."""
    if str(known) == str(seen):
        return True
    one, other = known.arrow, seen.arrow
    if pa.types.is_integer(other):
        return bool(pa.types.is_integer(one) or pa.types.is_floating(one))
    return any(bool(kind(one) and kind(other)) for kind in (pa.types.is_floating, pa.types.is_decimal))
