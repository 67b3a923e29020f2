"""Finds the converter's `decimal.format`: decimals are base64 or (`NUMERIC`) numbers, and records do not contain which."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import Int64s
from replicator_source_kafka.formats.json_records.json_objects import Objects
from replicator_source_kafka.types.connect_type import ConnectType

_DECIMAL = "org.apache.kafka.connect.data.Decimal"

Read = Callable[[bool, pa.Array, bool], Objects]
"""Reads texts; arguments: whether decimals are numbers, the texts, whether to be strict (see `ObjectReader`)."""


@dataclass(frozen=True, slots=True)
class DecimalFormat:
    """Distinguishes the two in the texts of one schema.

    Base64 may consist of digits, and Arrow reads digits in quotes as a number. So texts with quotes under a decimal's name
    are read as base64 first, and those that are not base64 are read again strictly, which is slow.

    Attributes:
        number: A pattern for a number under the name of a decimal, possibly in an array.
        quoted: A pattern for quotes there.
    """

    number: str
    quoted: str

    def readings(self, texts: pa.Array, read: Read) -> Iterator[tuple[bool, Objects]]:
        """The objects in all texts, with the format of each group: True for numbers. A text is bad in one reading at most."""
        left = np.arange(len(texts))
        if len(texts) and re.search(self.number.encode(), texts[0].as_py()):
            quoted = pc.match_substring_regex(texts, self.quoted).to_numpy(zero_copy_only=False)
            found = read(True, texts.filter(pa.array(~quoted)), False)
            yield True, _reindexed(found, np.flatnonzero(~quoted))
            left = np.flatnonzero(quoted)
        found = _reindexed(read(False, texts.take(pa.array(left)), False), left)
        if not found.bad:
            yield False, found
            return
        refused = np.array([i for i, _ in found.bad], np.int64)
        again = _reindexed(read(True, texts.take(pa.array(refused)), True), refused)
        numeric = set(again.index.tolist())
        yield False, Objects(found.rows, found.index, [bad for bad in found.bad if bad[0] not in numeric])
        yield True, Objects(again.rows, again.index, ())


def decimal_format(kind: ConnectType, ordered: bool) -> DecimalFormat | None:
    """The patterns of a schema; None for a schema without decimals.

    Args:
        kind: The schema.
        ordered: Whether members are in the schema's order. An envelope's `source` is then after its rows, and its texts,
            which may have the name of a column (`version`), are not matched.
    """
    plain, listed = set(_names(kind, False)), set(_names(kind, True))
    if not plain and not listed:
        return None
    quoted = _any_of((plain, '"'), (listed, r'\[[^\]]*"'))
    names = [name for name, _ in kind.fields]
    if ordered and "source" in names and {"before", "after"} & set(names[: names.index("source")]):
        quoted = rf'(?:{quoted}).*"source":\{{'
    return DecimalFormat(_any_of((plain, r"-?[0-9]"), (listed, r'\[[^\]"]*[0-9]')), quoted)


def under(names: Iterable[str], pattern: str) -> str:
    """A pattern for a value under one of the names; some writers escape letters in names."""
    written = {re.escape(json.dumps(name, ensure_ascii=ascii_only)) for name in names for ascii_only in (False, True)}
    return rf"(?:{'|'.join(sorted(written))})\s*:\s*{pattern}"


def _any_of(*choices: tuple[set[str], str]) -> str:
    return "|".join(under(names, pattern) for names, pattern in choices if names)


def _names(kind: ConnectType, listed: bool) -> Iterator[str]:
    """Names of decimals, or of arrays of them, at any depth."""
    for name, field in kind.fields:
        inner = field
        while inner.base == "array" and inner.items is not None:
            inner = inner.items
        if inner.name == _DECIMAL and (inner is not field) is listed:
            yield name
        yield from _names(inner, listed)


def _reindexed(found: Objects, places: Int64s) -> Objects:
    """Objects of some texts, with the indexes they have among all texts."""
    return Objects(found.rows, places[found.index], [(int(places[i]), reason) for i, reason in found.bad])
