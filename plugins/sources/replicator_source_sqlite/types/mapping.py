"""Maps declared column types to standard types. SQLite allows any text as a type; its affinity rules decide the rest."""

from __future__ import annotations

import re
from typing import Final

from replicator_sdk.datatype import (
    BINARY,
    BOOL,
    DATE,
    FLOAT64,
    INT64,
    JSON,
    STRING,
    TIME,
    TIMESTAMP,
    UUID,
    DataType,
    Decimal,
)

_NAMED: Final = {
    "BOOLEAN": BOOL,
    "BOOL": BOOL,
    "DATE": DATE,
    "TIME": TIME,
    "DATETIME": TIMESTAMP,
    "TIMESTAMP": TIMESTAMP,
    "JSON": JSON,
    "UUID": UUID,
    "GUID": UUID,
}
_AFFINITY: Final = (
    ("INT", INT64),
    ("CHAR", STRING),
    ("CLOB", STRING),
    ("TEXT", STRING),
    ("BLOB", BINARY),
    ("REAL", FLOAT64),
    ("FLOA", FLOAT64),
    ("DOUB", FLOAT64),
)
_DECIMAL: Final = re.compile(r"(?:DECIMAL|NUMERIC|NUMBER)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")


def standard_type(declared: str) -> DataType:
    """The standard type of a column declared as `declared`.

    Names with a meaning of their own come first (`BOOLEAN`, `DATETIME`, `DECIMAL(p,s)` …), then SQLite's affinity rules
    in SQLite's order; everything else (no type, `ANY`, bare `NUMERIC`) is transferred as text.
    """
    name = " ".join(declared.upper().split())
    if match := _DECIMAL.fullmatch(name):
        precision, scale = int(match[1]), int(match[2] or 0)
        return Decimal(precision, scale) if 1 <= precision <= 38 and scale <= precision else STRING
    word = re.sub(r"\s*\(.*\)$", "", name)
    if word in _NAMED:
        return _NAMED[word]
    return next((kind for part, kind in _AFFINITY if part in name), STRING)
