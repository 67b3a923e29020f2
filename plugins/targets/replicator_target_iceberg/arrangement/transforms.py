"""Iceberg's partition transforms of whole columns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator_target_iceberg.arrangement.hashing import decimal_bytes, hash_bytes, hash_numbers

_FORM: Final = re.compile(r"(identity|bucket|truncate|year|month|day|hour|void)(?:\[(\d+)\])?")
_UNITS: Final = {"year": "Y", "month": "M", "day": "D", "hour": "h"}
_WHOLE: Final = frozenset({"int", "long"})
_MOMENTS: Final = frozenset({"timestamp", "timestamptz"})
_HASHED: Final = frozenset({*_WHOLE, *_MOMENTS, "date", "string", "binary"})
_KEPT: Final = frozenset({*_WHOLE, *_MOMENTS, "date", "string", "boolean"})


@dataclass(frozen=True, slots=True)
class Transform:
    """One transform. Immutable.

    Attributes:
        name: Without its number.
        width: The number of buckets, or how many characters or numbers are one value.
    """

    name: str
    width: int = 0

    @classmethod
    def parse(cls, text: str) -> Transform | None:
        """The transform that Iceberg writes as `text`; None for one that is not known here."""
        found = _FORM.fullmatch(text)
        if found is None or (found[1] in {"bucket", "truncate"}) != (found[2] is not None):
            return None
        return cls(found[1], int(found[2] or 0))

    def takes(self, kind: Any) -> bool:
        """Whether values of a type, in Iceberg's JSON form, are transformed here: of Iceberg's own list all but what is never written,
        floating-point numbers, and parts of binary values and decimals.
        """
        if not isinstance(kind, str):
            return False
        is_decimal = kind.startswith("decimal")
        if self.name == "identity":
            return is_decimal or kind in _KEPT
        if self.name == "bucket":
            return is_decimal or kind in _HASHED
        if self.name == "truncate":
            return kind in _WHOLE or kind == "string"
        return self.name == "void" or kind in _MOMENTS or (kind == "date" and self.name != "hour")

    def apply(self, values: pa.Array) -> pa.Array:
        """The transformed values; NULL of NULL."""
        if self.name == "identity":
            return values
        if self.name == "void":
            return pa.nulls(len(values), values.type)
        if self.name == "truncate" and pa.types.is_string(values.type):
            return pc.utf8_slice_codeunits(values, 0, self.width)
        missing = pc.is_null(values).to_numpy(zero_copy_only=False)
        if self.name == "truncate":
            numbers = _numbers(values)
            return pa.array(numbers - np.mod(numbers, self.width), pa.int64(), mask=missing).cast(
                values.type, safe=False
            )
        if self.name == "bucket":
            positive = (_hashes(values) & np.uint32(0x7FFFFFFF)).astype(np.int64)
            return pa.array(positive % self.width, pa.int32(), mask=missing)
        is_date = pa.types.is_date(values.type)
        moments = _numbers(values).view("datetime64[D]" if is_date else "datetime64[us]")
        counted = moments.astype(f"datetime64[{_UNITS[self.name]}]").astype(np.int64)
        made = pa.array(counted, pa.int32(), mask=missing)
        return made.cast(pa.date32()) if self.name == "day" else made


def _numbers(values: pa.Array) -> npt.NDArray[np.int64]:
    """Whole numbers, days or microseconds; 0 for NULL."""
    whole = values.cast(pa.int32()).cast(pa.int64()) if pa.types.is_date(values.type) else values.cast(pa.int64())
    numbers: npt.NDArray[np.int64] = pc.fill_null(whole, 0).to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(numbers)


def _hashes(values: pa.Array) -> npt.NDArray[np.uint32]:
    if pa.types.is_decimal(values.type):
        return hash_bytes(decimal_bytes(values))
    if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
        return hash_bytes(values)
    return hash_numbers(_numbers(values))
