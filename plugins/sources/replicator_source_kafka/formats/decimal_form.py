"""JSON with schemas writes decimals as base64 or, with `decimal.format=NUMERIC`, as numbers; records do not say which."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import Int64s
from replicator_source_kafka.formats.json_objects import Objects
from replicator_source_kafka.types.connect_type import ConnectType

_DECIMAL = "org.apache.kafka.connect.data.Decimal"

Read = Callable[[bool, pa.Array, bool], Objects]
"""Reads texts: whether decimals are numbers, the texts, whether to be strict (see `ObjectReader`)."""


@dataclass(frozen=True, slots=True)
class DecimalForm:
    """Tells the two apart in the texts of one schema.

    Arrow would take the digits in quotes, which base64 may be, for a number: texts with anything in quotes under a decimal's
    name are therefore read strictly, and only when they were refused as base64, which is slow.

    Attributes:
        number: Matches a number under the name of a decimal, perhaps in an array.
        quoted: Matches quotes there.
    """

    number: str
    quoted: str

    def readings(self, texts: pa.Array, read: Read) -> Iterator[tuple[bool, Objects]]:
        """All texts as they are written: whether as numbers, and what was read. A text is bad in one reading at most."""
        left = np.arange(len(texts))
        if len(texts) and re.search(self.number.encode(), texts[0].as_py()):
            quoted = pc.match_substring_regex(texts, self.quoted).to_numpy(zero_copy_only=False)
            found = read(True, texts.filter(pa.array(~quoted)), False)
            yield True, _moved(found, np.flatnonzero(~quoted))
            left = np.flatnonzero(quoted)
        found = _moved(read(False, texts.take(pa.array(left)), False), left)
        if not found.bad:
            yield False, found
            return
        refused = np.array([i for i, _ in found.bad], np.int64)
        again = _moved(read(True, texts.take(pa.array(refused)), True), refused)
        mended = set(again.index.tolist())
        yield False, Objects(found.rows, found.index, [bad for bad in found.bad if bad[0] not in mended])
        yield True, Objects(again.rows, again.index, ())


def decimal_form(kind: ConnectType, ordered: bool) -> DecimalForm | None:
    """Of a schema; None for one without decimals.

    Args:
        kind: The schema.
        ordered: Whether members stand in the schema's order. An envelope's `source` then stands behind its rows, and its
            texts, which may have the name of a column (`version`), do not count.
    """
    plain, listed = set(_names(kind, False)), set(_names(kind, True))
    if not plain and not listed:
        return None
    quoted = _any_of((plain, '"'), (listed, r'\[[^\]]*"'))
    names = [name for name, _ in kind.fields]
    if ordered and "source" in names and {"before", "after"} & set(names[: names.index("source")]):
        quoted = rf'(?:{quoted}).*"source":\{{'
    return DecimalForm(_any_of((plain, r"-?[0-9]"), (listed, r'\[[^\]"]*[0-9]')), quoted)


def under(names: Iterable[str], pattern: str) -> str:
    """A pattern for a value of one of the names; some writers escape letters in names."""
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


def _moved(found: Objects, places: Int64s) -> Objects:
    """Objects of some texts, as of all of them."""
    return Objects(found.rows, places[found.index], [(int(places[i]), reason) for i, reason in found.bad])
