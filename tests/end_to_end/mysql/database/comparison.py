"""MySQL or MariaDB and copy as multisets of rows: both are read by packages that share no code with the replicator."""

from __future__ import annotations

import pickle
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, TypeAlias

from tests.end_to_end.comparison import delta_rows
from tests.services.mysql import client as mysql_client
from tests.services.mysql.server import MysqlDatabase

Row = tuple[Any, ...]
Copy: TypeAlias = Callable[[str, Sequence[str]], Counter[Row]]
"""The rows of a copied table, of these columns."""


def in_lake(lake: Path, database: MysqlDatabase) -> Copy:
    """The copies in Delta."""

    def read(table: str, names: Sequence[str]) -> Counter[Row]:
        path = lake / database.name / table.replace('"', "~22")
        return Counter(tuple(map(_without_zone, row)) for row in delta_rows(path, names))

    return read


def in_file_target(path: Path, database: MysqlDatabase) -> Copy:
    """The copies in the target of tests."""

    def read(table: str, names: Sequence[str]) -> Counter[Row]:
        tables = pickle.loads(path.read_bytes()) if path.exists() else {}
        for name, kept in tables.items():
            if (name.database, name.table) == (database.name, table):
                places = [kept.schema.names.index(column) for column in names]
                return Counter({_hashable(row, places): count for row, count in kept.rows.items()})
        return Counter()

    return read


def _hashable(row: Row, places: Sequence[int]) -> Row:
    return tuple(_without_zone(tuple(row[i]) if isinstance(row[i], list) else row[i]) for i in places)


def _without_zone(value: Any) -> Any:
    return value.astimezone(UTC).replace(tzinfo=None) if isinstance(value, datetime) and value.tzinfo else value


def assert_equal_copies(database: MysqlDatabase, copy: Copy, tables: Sequence[str]) -> int:
    """Assert that every table and its copy hold the same rows equally often; returns how many rows."""
    found = [_difference(database, copy, table) for table in tables]
    assert not any(difference for _, difference in found), "\n".join(difference for _, difference in found)
    return sum(count for count, _ in found)


def differs(database: MysqlDatabase, copy: Copy, tables: Sequence[str]) -> str:
    """How tables and copies differ; empty when they do not."""
    return "\n".join(filter(None, (_difference(database, copy, table)[1] for table in tables)))


def _difference(database: MysqlDatabase, copy: Copy, table: str) -> tuple[int, str]:
    columns = _columns(database, table)
    source, target = Counter(_source_rows(database, table, columns)), copy(table, [c.name for c in columns])
    if source == target:
        return source.total(), ""
    missing, surplus = source - target, target - source
    text = f"{table}: {source.total()} rows at the source, {target.total()} in the copy; missing {missing.total()}"
    return source.total(), f"{text}, surplus {surplus.total()}; {_first_difference(columns, missing, surplus)}"


def _first_difference(columns: Sequence[_Column], missing: Counter[Row], surplus: Counter[Row]) -> str:
    """The two rows most alike, and in which columns they differ."""
    if not missing or not surplus:
        return "; ".join(repr(row)[:300] for row in list(missing or surplus)[:3])
    wanted = next(iter(missing))
    found = max(surplus, key=lambda row: sum(a == b for a, b in zip(row, wanted, strict=True)))
    unequal = [
        f"{column.name} {column.declared}: {a!r:.200} arrived as {b!r:.200}"
        for column, a, b in zip(columns, wanted, found, strict=True)
        if a != b
    ]
    return "; ".join(unequal)


# ------------------------------------------------------------ the source


@dataclass(frozen=True, slots=True)
class _Column:
    """A column, the expression that selects it, and how the answer is converted."""

    name: str
    declared: str
    form: str
    read: Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


def _moment(value: str) -> datetime | None:
    """A moment; zero and partial dates arrive as NULL."""
    return None if "-00" in value or value.startswith("0000") else datetime.fromisoformat(value)


def _day(value: str) -> date | None:
    return None if "-00" in value or value.startswith("0000") else date.fromisoformat(value)


def _vector(value: str) -> tuple[float, ...]:
    data = bytes.fromhex(value)
    return struct.unpack(f"<{len(data) // 4}f", data)


_TEXT = ("CAST({} AS CHAR)", _same)
_HEX = ("HEX({})", bytes.fromhex)
_FORMS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "float": ("CAST({} AS DOUBLE)", _same),
    "date": ("CAST({} AS CHAR)", _day),
    "datetime": ("CAST({} AS CHAR)", _moment),
    "timestamp": ("CAST({} AS CHAR)", _moment),
    "vector": ("HEX({})", _vector),
    **dict.fromkeys(("time", "set", "enum", "uuid", "inet4", "inet6", "json"), _TEXT),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), _HEX),
    **dict.fromkeys(("geometry", "point", "polygon"), ("HEX(ST_AsBinary({}))", bytes.fromhex)),
}


def _columns(database: MysqlDatabase, table: str) -> list[_Column]:
    found = mysql_client.rows(
        database,
        "SELECT column_name, data_type, column_type, numeric_precision FROM information_schema.columns"
        f" WHERE table_schema = '{database.name}' AND table_name = '{table}' ORDER BY ordinal_position",
    )
    assert found, f"there is no table {table}"
    return [_column(*(_decoded(value) for value in row)) for row in found]


def _decoded(value: Any) -> Any:
    return value.decode() if isinstance(value, (bytes, bytearray)) else value


def _column(name: str, kind: str, declared: str, precision: int | None) -> _Column:
    form, read = _FORMS.get(kind, ("{}", _same))
    if kind == "bit":
        size = (int(precision or 1) + 7) // 8
        form, read = "{} + 0", bool if precision == 1 else lambda value: int(value).to_bytes(size, "big")
    elif kind == "decimal" and int(precision or 0) > 38:
        form, read = _TEXT
    return _Column(name, declared, form, read)


def _source_rows(database: MysqlDatabase, table: str, columns: Sequence[_Column]) -> Iterator[Row]:
    listed = ", ".join(column.form.format("`" + column.name.replace("`", "``") + "`") for column in columns)
    for row in mysql_client.rows(database, f"SELECT {listed} FROM `{table}`"):
        yield tuple(
            None if value is None else column.read(_decoded(value)) for column, value in zip(columns, row, strict=True)
        )
