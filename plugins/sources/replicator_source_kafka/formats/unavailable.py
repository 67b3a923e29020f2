"""Debezium's placeholder for a value it did not receive: a TOASTed column that an UPDATE did not change."""

from __future__ import annotations

import base64
import hashlib
import uuid
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_source_kafka.types.column_codec import JSON_TEXT


@dataclass(frozen=True, slots=True)
class UnavailableValues:
    """Finds the placeholder in columns as they are read, before any conversion.

    Attributes:
        text: The placeholder (`unavailable.value.placeholder`).
    """

    text: str

    def mask(self, values: pa.Array) -> pa.BooleanArray | None:
        """True where the value is the placeholder; None if it does not occur."""
        kind = values.type
        if pa.types.is_string(kind):
            return _if_any(pc.is_in(values, pa.array([self.text, self._base64()])))
        if pa.types.is_binary(kind):
            return _if_any(pc.equal(values, self.text.encode()))
        if kind == JSON_TEXT:
            return _if_any(pc.equal(pc.map_lookup(values, pa.scalar("", pa.string()), "first"), self._map_text()))
        if pa.types.is_list(kind) and pa.types.is_string(kind.value_type):
            return self._in_lists(values, [self.text, self._uuid()])
        if pa.types.is_list(kind) and pa.types.is_integer(kind.value_type):
            return self._in_numbers(values)
        return None

    def _base64(self) -> str:
        return base64.b64encode(self.text.encode()).decode()

    def _map_text(self) -> str:
        return f'{{"{self.text}":"{self.text}"}}'

    def _uuid(self) -> str:
        """Java's UUID.nameUUIDFromBytes, the placeholder in arrays of UUIDs."""
        digest = hashlib.md5(self.text.encode(), usedforsecurity=False).digest()
        return str(uuid.UUID(bytes=digest, version=3))

    def _in_lists(self, values: pa.ListArray, texts: list[str]) -> pa.BooleanArray | None:
        """Lists with the placeholder as their only element."""
        candidates = self._of_length(values, 1)
        return self._confirm(values, candidates, [[t] for t in texts])

    def _in_numbers(self, values: pa.ListArray) -> pa.BooleanArray | None:
        """Lists of the placeholder's characters as numbers."""
        candidates = self._of_length(values, len(self.text))
        return self._confirm(values, candidates, [[ord(c) for c in self.text]])

    @staticmethod
    def _of_length(values: pa.ListArray, length: int) -> np.ndarray:
        return np.flatnonzero(pc.equal(values.value_lengths(), length).fill_null(False).to_numpy(zero_copy_only=False))

    @staticmethod
    def _confirm(
        values: pa.ListArray, candidates: np.ndarray, placeholders: list[list[object]]
    ) -> pa.BooleanArray | None:
        if not len(candidates):
            return None
        found = [value in placeholders for value in values.take(pa.array(candidates)).to_pylist()]
        hit = np.zeros(len(values), np.bool_)
        hit[candidates] = found
        return _if_any(pa.array(hit))


def _if_any(hit: pa.BooleanArray) -> pa.BooleanArray | None:
    hit = hit.fill_null(False)
    return hit if pc.any(hit).as_py() else None
