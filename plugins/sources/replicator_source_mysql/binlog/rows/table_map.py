"""TABLE_MAP events: which table the row events after one belong to, and how its values are stored."""

from __future__ import annotations

from dataclasses import dataclass, field

from replicator_source_mysql.binlog.event import Events
from replicator_source_mysql.binlog.event_errors import broken_event
from replicator_source_mysql.binlog.rows.storage_types import StorageType, real_type

_LIMIT = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class TableMap:
    """One version of a table as the log announces it. Compared by identity: an equal announcement is the same object.

    Attributes:
        table_id: The number row events name it by.
        database: Its database.
        table: Its name.
        kinds: Type code of each column; for ENUM, SET and CHAR the real one.
        metadata: What the type code leaves open: the bytes of a length (BLOB, JSON, GEOMETRY), the digits of a fraction,
            the greatest length (VARCHAR, CHAR), precision + 256 * scale (DECIMAL), bits + 256 * bytes (BIT), the width
            (ENUM, SET, FLOAT, DOUBLE).
        nullable: Whether each column may be NULL.
        optional: The optional metadata as it came (signedness, names with `binlog_row_metadata=FULL`).
        physical: How each column's values are stored in a row.
    """

    table_id: int
    database: str
    table: str
    kinds: tuple[int, ...]
    metadata: tuple[int, ...]
    nullable: tuple[bool, ...]
    optional: bytes
    physical: tuple[StorageType, ...] = field(repr=False)

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


class TableMaps:
    """The announcements seen so far; the thousandth same one costs one lookup."""

    def __init__(self) -> None:
        self._maps: dict[bytes, TableMap] = {}

    def learn(self, events: Events, index: int) -> TableMap:
        """The table map in an event; the same object for the same bytes.

        Raises:
            BugError: When the body does not keep to the format or has an unknown type.
        """
        body = events.body(index)
        found = self._maps.get(body)
        if found is None:
            if len(self._maps) >= _LIMIT:
                self._maps.clear()
            found = self._maps[body] = parse_table_map(body, str(events.place(index)))
        return found

    def forget(self) -> None:
        """Forget all of them."""
        self._maps.clear()


def parse_table_map(body: bytes, place: str) -> TableMap:
    """Table id (6), flags (2), database, table, number of columns, types, metadata, a bit per nullable column, the rest.

    Raises:
        BugError: When the body does not keep to that or has an unknown type.
    """
    try:
        cursor = _Cursor(body, 8)
        database = cursor.name()
        table = cursor.name()
        count = cursor.number()
        types = cursor.take(count)
        kinds, metadata, physical = _columns(types, cursor.take(cursor.number()))
        bits = int.from_bytes(cursor.take((count + 7) // 8), "little")
    except (ValueError, IndexError) as err:
        raise broken_event(f"a table map that cannot be read: {err}", place) from err
    nullable = tuple(bool(bits >> rank & 1) for rank in range(count))
    table_id = int.from_bytes(body[:6], "little")
    return TableMap(table_id, database, table, kinds, metadata, nullable, cursor.rest(), physical)


def _columns(types: bytes, metadata: bytes) -> tuple[tuple[int, ...], tuple[int, ...], tuple[StorageType, ...]]:
    kinds, values, physical = [], [], []
    at = 0
    for code in types:
        kind, value, size, form = real_type(code, metadata, at)
        at += size
        kinds.append(kind)
        values.append(value)
        physical.append(form)
    if at != len(metadata):
        raise ValueError("its metadata has another length than its types")
    return tuple(kinds), tuple(values), tuple(physical)


class _Cursor:
    """Reads fields one after another."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at

    def take(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._data):
            raise ValueError("it is too short")
        taken, self._at = self._data[self._at : end], end
        return taken

    def number(self) -> int:
        first = self.take(1)[0]
        if first < 0xFB:
            return first
        if first not in {0xFC, 0xFD}:
            raise ValueError("a number in it is too large")
        return int.from_bytes(self.take(first - 0xFA), "little")

    def name(self) -> str:
        name = self.take(self.take(1)[0])
        if self.take(1) != b"\0":
            raise ValueError("a name does not end")
        return name.decode("utf-8", "surrogateescape")

    def rest(self) -> bytes:
        return self._data[self._at :]
