"""Groups records by the columns in their keys, which identify a row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from replicator_sdk.batch import Int64s
from replicator_source_kafka.formats.format import Poison
from replicator_source_kafka.formats.json_records.embedded_schema import SchemaHeads, may_have_schema
from replicator_source_kafka.formats.json_records.plain_keys import plain_key_names
from replicator_source_kafka.types.connect_type import ConnectType

_NATURAL = {"boolean": "bool", "float": "float", "double": "float", "string": "string", "bytes": "string"}


@dataclass(frozen=True, slots=True)
class KeyGroup:
    """Records whose keys have the same names.

    Attributes:
        kinds: Name → JSON kind; empty for records without a key.
        positions: Positions in the array of indexes that was given.
        kind: The keys' schema, if they embed one.
    """

    kinds: dict[str, str]
    positions: Int64s
    kind: ConnectType | None = None


@dataclass(slots=True)
class RecordKeys:
    """Groups records by the names in their keys, which may embed a schema or be plain JSON objects."""

    heads: SchemaHeads = field(default_factory=SchemaHeads)

    def groups(self, keys: pa.Array, index: Int64s, poison: list[Poison]) -> Iterator[KeyGroup]:
        """The records at `index` by the names in their keys; `keys` are those of all records.

        Records with keys without names are added to `poison`.
        """
        keys = keys if len(index) == len(keys) else keys.take(pa.array(index))
        present = keys.is_valid().to_numpy(zero_copy_only=False)
        absent = np.flatnonzero(~present)
        if len(absent):
            yield KeyGroup({}, absent)
        places = np.flatnonzero(present)
        keys = keys.drop_null() if len(absent) else keys
        embedded = may_have_schema(keys)
        whole = bool(embedded.all())
        bad: list[tuple[int, str]] = []
        if embedded.any():
            some, where = (keys, places) if whole else (keys.filter(pa.array(embedded)), places[embedded])
            for run in self.heads.runs(some, where, bad):
                kinds = {name: _NATURAL.get(kind.base, "int") for name, kind in run.kind.fields}
                if kinds:
                    yield KeyGroup(kinds, run.index, run.kind)
                else:
                    bad.extend((int(i), "has a key whose schema is not a struct") for i in run.index)
        if not whole:
            plain, where = keys.filter(pa.array(~embedded)), places[~embedded]
            plain_bad: list[tuple[int, str]] = []
            for names, positions in plain_key_names(plain, plain_bad):
                yield KeyGroup(names, where[positions])
            bad.extend((int(where[i]), reason) for i, reason in plain_bad)
        poison.extend(Poison(int(index[i]), "RPL-3916", reason) for i, reason in bad)
