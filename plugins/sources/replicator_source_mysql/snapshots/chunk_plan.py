"""Plans chunks for reading a table in parallel: ranges of its key, which cover every row there is or will be.

A range goes from one key (inclusive) to another (exclusive); the first and the last are open. The bounds are found by
walking the key's index at the server, or, for dense whole numbers, computed. A row stays
in its range as long as it keeps its key, so chunks may be read at different moments and an interrupted snapshot goes on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from replicator_sdk.schema import TableId
from replicator_sdk.snapshot import SnapshotChunk
from replicator_source_mysql.connect.connection import Row, execute, named_rows, quote_identifier
from replicator_source_mysql.definition import TableDefinition
from replicator_source_mysql.snapshots.key_bounds import KeyColumn, key_column

if TYPE_CHECKING:
    import pymysql

Bound = Sequence[Any]

WHOLE: Mapping[str, Any] = {"kind": "whole"}

_DEPTH = 4
"""More columns of a key are not looked at: what is equal in four is read together."""
_PROBES = 16
_PROBE_ROWS = 1_000
_DENSE = 0.2
"""From one row in five numbers on ranges are computed; below, or where it is not the same everywhere, they are walked."""
_ENUM_CHUNKS = 8
"""The server finds no range of an ENUM by its index, so each chunk reads the whole index."""


@dataclass(frozen=True, slots=True)
class KeyIndex:
    """The index by which a table is cut.

    Attributes:
        name: Its name.
        columns: Its leading columns that ranges can be built of; none when the table cannot be cut.
    """

    name: str
    columns: tuple[KeyColumn, ...]

    def to_json(self) -> dict[str, Any]:
        """What bounds depend on; kept with them."""
        return {"index": self.name, "columns": [[c.name, c.kind, c.collation] for c in self.columns]}


def qualified(table: TableId) -> str:
    """A table's full name in SQL."""
    return f"{quote_identifier(table.database)}.{quote_identifier(table.table)}"


def key_index(connection: pymysql.Connection[Any], definition: TableDefinition) -> KeyIndex | None:
    """The index of the table's identity; None when it has none."""
    identity = definition.identity
    shown = named_rows(connection, f"SHOW INDEX FROM {qualified(definition.table)}") if identity else []
    for key in sorted(definition.keys, key=lambda key: not key.is_primary):
        if tuple(name.lower() for name in key.columns) == tuple(name.lower() for name in identity):
            parts = [row for row in shown if row["key_name"] == key.name]
            parts.sort(key=lambda row: int(row["seq_in_index"]))
            facts = named_rows(connection, f"SHOW FULL COLUMNS FROM {qualified(definition.table)}")
            collations = {str(row["field"]): str(row["collation"] or "") for row in facts}
            return KeyIndex(key.name, _leading(definition, parts, collations))
    return None


def fingerprint(connection: pymysql.Connection[Any], definition: TableDefinition) -> str:
    """A digest that differs when a change of the table's structure changes rows or the ranges they are in."""
    index = key_index(connection, definition)
    facts = [definition.to_json(), index.to_json() if index else None]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def _leading(
    definition: TableDefinition, parts: Sequence[Mapping[str, Any]], collations: Mapping[str, str]
) -> tuple[KeyColumn, ...]:
    columns: list[KeyColumn] = []
    for part in parts[:_DEPTH]:
        column = key_column(definition[part["column_name"]], collations.get(part["column_name"], ""))
        # The index does not sort by a column of which it holds the beginning only, nor upwards when it is DESC.
        if column is None or part["sub_part"] is not None or part["collation"] != "A":
            break
        columns.append(column)
    return tuple(columns)


def plan(
    connection: pymysql.Connection[Any], definition: TableDefinition, chunk_rows: int
) -> tuple[SnapshotChunk, ...]:
    """Chunks of about `chunk_rows` rows each; one of the whole table where it cannot be cut."""
    index = key_index(connection, definition)
    if index is None or not index.columns:
        return (SnapshotChunk(0, WHOLE),)
    walk = _Walk(connection, definition.table, index)
    cuts = list(_computed(walk, chunk_rows) or walk.cuts(chunk_rows))
    facts = {"kind": "key", **index.to_json()}
    ends = zip([None, *cuts], [*cuts, None], strict=True)
    return tuple(
        SnapshotChunk(rank, {**facts, "from": low, "to": high}, chunk_rows if cuts else -1)
        for rank, (low, high) in enumerate(ends)
    )


def fits(chunks: Sequence[SnapshotChunk], connection: pymysql.Connection[Any], definition: TableDefinition) -> bool:
    """Whether kept chunks still mean ranges of this table's key."""
    index = key_index(connection, definition)
    if index is None or not index.columns:
        return [dict(chunk.bounds) for chunk in chunks] == [dict(WHOLE)] and index is not None
    facts = {"kind": "key", **index.to_json()}
    return all({name: chunk.bounds.get(name) for name in facts} == facts for chunk in chunks)


def condition(bounds: Mapping[str, Any]) -> tuple[str, str]:
    """The index hint and the WHERE clause of a chunk; both empty for a whole one."""
    if bounds["kind"] == "whole":
        return "", ""
    columns = [KeyColumn(*facts) for facts in bounds["columns"]]
    low, high = bounds["from"], bounds["to"]
    limits = [_after(columns, low, inclusive=True)] if low is not None else []
    limits += [_before(columns, high)] if high is not None else []
    hint = f" FORCE INDEX ({quote_identifier(bounds['index'])})"
    return (hint, f" WHERE {' AND '.join(limits)}") if limits else ("", "")


def _after(columns: Sequence[KeyColumn], bound: Bound, *, inclusive: bool) -> str:
    return _beyond(columns, bound, ">", ">=" if inclusive else ">")


def _before(columns: Sequence[KeyColumn], bound: Bound) -> str:
    return _beyond(columns, bound, "<", "<")


def _beyond(columns: Sequence[KeyColumn], bound: Bound, operator: str, last: str) -> str:
    """`(a, b) > (x, y)` as comparisons of single columns, in which the server sees a range of the index."""
    alternatives, equal = [], ""
    for rank, (column, value) in enumerate(zip(columns, bound, strict=True)):
        literal = column.literal(value)
        compared = last if rank == len(bound) - 1 else operator
        alternatives.append(f"({equal}{column.column} {compared} {literal})")
        equal += f"{column.column} = {literal} AND "
    first = f"{columns[0].column} {operator}= {columns[0].literal(bound[0])}"
    return alternatives[0] if len(alternatives) == 1 else f"({first} AND ({' OR '.join(alternatives)}))"


class _Walk:
    """Steps along an index. Ranges are planned outside of any transaction: each step sees the rows of its own moment."""

    def __init__(self, connection: pymysql.Connection[Any], table: TableId, index: KeyIndex) -> None:
        self._connection = connection
        self.columns = index.columns
        self._from = f"FROM {qualified(table)} FORCE INDEX ({quote_identifier(index.name)})"

    def _ask(self, query: str) -> Row | None:
        rows = execute(self._connection, query)
        return rows[0] if rows else None

    def ahead(self, bound: Bound | None, rows: int) -> list[Any] | None:
        """The key `rows` rows after `bound` (exclusive), or after the beginning; None when there are not so many."""
        where = "" if bound is None else f"WHERE {_after(self.columns, bound, inclusive=False)}"
        selected = ", ".join(column.expression for column in self.columns)
        order = ", ".join(column.column for column in self.columns)
        found = self._ask(f"SELECT {selected} {self._from} {where} ORDER BY {order} LIMIT 1 OFFSET {rows}")
        return None if found is None else [c.from_server(v) for c, v in zip(self.columns, found, strict=True)]

    def extent(self) -> tuple[int, int] | None:
        """The least and the greatest value of the first column, a whole number; None for an empty table."""
        name = self.columns[0].column
        found = self._ask(f"SELECT MIN({name}), MAX({name}) {self._from}")
        return None if found is None or found[0] is None else (int(found[0]), int(found[1]))

    def cuts(self, chunk_rows: int) -> Iterator[list[Any]]:
        """Keys `chunk_rows` rows apart."""
        found = self.ahead(None, chunk_rows)
        count = 0
        while found is not None and all(c.is_comparable(v) for c, v in zip(self.columns, found, strict=True)):
            yield found
            count += 1
            if self.columns[0].kind == "enum" and count >= _ENUM_CHUNKS - 1:
                return
            # The bound itself is in the next chunk.
            found = self.ahead(found, chunk_rows - 1)


def _computed(walk: _Walk, chunk_rows: int) -> list[list[Any]]:
    """Cuts at even distances, where a key of one whole number is dense enough everywhere; none elsewhere."""
    extent = walk.extent() if [column.kind for column in walk.columns] == ["integer"] else None
    if extent is None:
        return []
    least, greatest = extent
    span = greatest - least + 1
    if span <= chunk_rows * 2:
        return []
    densities = []
    for place in range(least - 1, greatest - _PROBE_ROWS, max(1, span // _PROBES)):
        found = walk.ahead([place], _PROBE_ROWS - 1)
        if found is not None:
            densities.append(_PROBE_ROWS / (found[0] - place))
    if not densities or min(densities) < _DENSE:
        return []
    step = max(1, int(chunk_rows / (sum(densities) / len(densities))))
    return [[place] for place in range(least + step, greatest + 1, step)]
