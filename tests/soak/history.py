"""Random transactions of some tables, as SQL that every database of the tests understands."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

Transaction = list[str]

LATER = "later_"
"""What the names of tables begin with that are created between stops."""

OTHER = "{other}"
"""Written in statements in place of the name of the database that is created and dropped; see `Source.place`."""

_GUEST = f"{OTHER}.guest"
_TEXT, _NUMBER = "varchar(60)", "int"
_MOST_LATER_TABLES = 3


@dataclass(frozen=True, slots=True)
class Dialect:
    """What differs between the databases.

    Attributes:
        truncate: How all rows of a table are removed at once; None where a history must not do so.
        retype: How an int column is made a bigint; None where a history must not do so.
        rewrite: How the values of an int column are changed by a change of its type; None where that does not exist.
        renames: Whether columns are renamed.
        drops: Whether columns are dropped.
        defaults: Whether added columns have a default.
        keyless: Whether there is a table without a key.
        later: Whether tables are created, renamed and dropped between stops.
        databases: Whether a database is created, with a table, and dropped between stops.
        large: The type of a large text.
        whole_rows: The tables of which the log is to hold whole rows before a change: one without a key, and one with
            large values where a row that moves would come without them.
    """

    truncate: str | None = "TRUNCATE TABLE {table}"
    retype: str | None = None
    rewrite: str | None = None
    renames: bool = True
    drops: bool = True
    defaults: bool = True
    keyless: bool = True
    later: bool = True
    databases: bool = False
    large: str = "text"
    whole_rows: Sequence[str] = ()


POSTGRES = Dialect(
    retype="ALTER TABLE {table} ALTER COLUMN {column} TYPE bigint",
    rewrite="ALTER TABLE {table} ALTER COLUMN {column} TYPE bigint USING {column} * 10",
    whole_rows=["note"],
)
MYSQL = Dialect(retype="ALTER TABLE {table} MODIFY COLUMN {column} bigint", databases=True)
SQLITE = Dialect(truncate="DELETE FROM {table}", drops=False)  # of a column: SQLite refuses it while it is captured
DEBEZIUM = Dialect(
    truncate=None, renames=False, drops=False, defaults=False, keyless=False, later=False, whole_rows=["big"]
)


@dataclass(slots=True)
class Table:
    """One table as the history has made it.

    Attributes:
        name: Its name.
        key: Its key columns; empty for none.
        extra: Columns that were added, with their types.
        highest: The highest number given to a row.
    """

    name: str
    key: Sequence[str]
    extra: list[tuple[str, str]] = field(default_factory=list)
    highest: int = 0


class History:
    """Makes transactions; the same seed and dialect make the same ones.

    Args:
        chance: Where all choices come from.
        dialect: What the database understands.
    """

    def __init__(self, chance: random.Random, dialect: Dialect) -> None:
        self._chance, self._dialect = chance, dialect
        self._columns = 0
        self.tables = [Table("item", ["id"]), Table("pair", ["a", "b"]), Table("big", ["id"])]
        if dialect.keyless:
            self.tables.append(Table("note", []))

    def create(self) -> list[Transaction]:
        """The tables, with some rows."""
        made = [
            "CREATE TABLE item (id int PRIMARY KEY, name varchar(60), n int)",
            "CREATE TABLE pair (a int NOT NULL, b varchar(20) NOT NULL, n int, PRIMARY KEY (a, b))",
            f"CREATE TABLE big (id int PRIMARY KEY, body {self._dialect.large}, n int)",
        ]
        if self._dialect.keyless:
            made.append("CREATE TABLE note (name varchar(60), n int)")
        whole = [table.name for table in self.tables if table.name in self._dialect.whole_rows]
        made += [f"ALTER TABLE {name} REPLICA IDENTITY FULL" for name in whole]
        return [
            *([statement] for statement in made),
            [s for t in self.tables for _ in range(6) for s in self._insert(t)],
        ]

    def transactions(self, shape: str = "") -> Iterator[Transaction]:
        """What happens between two stops: often a change of structure first, last or alone; chosen when not given.

        Tables come, go and get other names now and then, unless "rows" is asked for.
        """
        lasting = shape == "rows"
        shape = shape or self._chance.choice(
            ("structure", "structure first", "structure last", "inside", "rows", "rows", "none")
        )
        if shape == "none":
            return
        if self._dialect.later and not lasting and self._chance.random() < 0.1:
            yield from self._later()
        if self._dialect.databases and not lasting and self._chance.random() < 0.25:
            yield from self._other_database()
        if not lasting and self._chance.random() < 0.3:
            yield self._rename_tables()
        if shape in {"structure", "structure first"}:
            yield self._structure()
        if shape != "structure":
            for _ in range(self._chance.randint(1, 4)):
                rows = self._rows()
                if shape == "inside" and self._chance.random() < 0.5:
                    rows = [*rows, *self._structure(), *self._rows()]
                yield rows
        if shape == "structure last":
            yield self._structure()

    # ------------------------------------------------------------ rows

    def _rows(self) -> Transaction:
        kinds = (self._insert, self._insert, self._update, self._update, self._delete, self._move, self._swap)
        made: Transaction = []
        for _ in range(self._chance.randint(1, 5)):
            made += self._chance.choice(kinds)(self._chance.choice(self.tables))
        return made

    def _insert(self, table: Table) -> Transaction:
        table.highest += 1
        number = table.highest
        given: dict[str, object]
        if table.name == "pair":
            given = {"a": number, "b": f"b{number % 3}"}
        elif table.name == "big":
            given = {"id": number, "body": self._large()}
        elif table.key:
            given = {"id": number, "name": f"name {number}"}
        else:
            given = {"name": f"note {number % 5}"}
        given["n"] = self._chance.randint(0, 9)
        for name, kind in table.extra:
            if self._chance.random() < 0.7:
                given[name] = f"x{number}" if kind == _TEXT else self._chance.randint(0, 999)
        names, values = ", ".join(given), ", ".join(_literal(value) for value in given.values())
        statement = f"INSERT INTO {table.name} ({names}) VALUES ({values})"
        return [statement] * (self._chance.randint(1, 2) if not table.key else 1)

    def _update(self, table: Table) -> Transaction:
        low = self._some(table)
        where = f"{table.key[0]} BETWEEN {low} AND {low + 5}" if table.key else f"n = {self._chance.randint(0, 9)}"
        change = f"n = {self._chance.randint(0, 9)}"
        if table.extra and self._chance.random() < 0.5:
            name, kind = self._chance.choice(table.extra)
            change = f"{name} = {_literal(f'u{low}' if kind == _TEXT else low)}"
        elif table.name == "big" and self._chance.random() < 0.3:
            change = f"body = {_literal(self._large())}"
        return [f"UPDATE {table.name} SET {change} WHERE {where}"]

    def _delete(self, table: Table) -> Transaction:
        where = f"{table.key[0]} = {self._some(table)}" if table.key else f"n = {self._chance.randint(0, 9)}"
        return [f"DELETE FROM {table.name} WHERE {where}"]

    def _move(self, table: Table) -> Transaction:
        """A row gets another key."""
        if not table.key:
            return self._update(table)
        table.highest += 1
        key = table.key[0]
        return [f"UPDATE {table.name} SET {key} = {table.highest} WHERE {key} = {self._some(table)}"]

    def _swap(self, table: Table) -> Transaction:
        """Two rows swap their keys, by a third one."""
        if not table.key:
            return self._delete(table)
        first, second, key = self._some(table), self._some(table), table.key[0]
        table.highest += 1
        places = ((table.highest, first), (first, second), (second, table.highest))
        if first == second:
            return self._update(table)
        return [f"UPDATE {table.name} SET {key} = {new} WHERE {key} = {old}" for new, old in places]

    def _some(self, table: Table) -> int:
        return self._chance.randint(max(1, table.highest - 20), max(1, table.highest))

    def _large(self) -> str:
        """A text that a database keeps apart from its row."""
        return "".join(self._chance.choice("abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(4000))

    # ------------------------------------------------------------ structure

    def _structure(self) -> Transaction:
        """One change of structure, alone in its transaction or with another."""
        table, dialect = self._chance.choice(self.tables), self._dialect
        kinds = [self._add]
        if dialect.truncate:
            kinds += [self._truncate] * 3
        if table.extra:
            kinds += [self._rename] * dialect.renames + [self._drop] * dialect.drops
            kinds += [self._retype] * bool(dialect.retype) + [self._rewrite] * bool(dialect.rewrite)
        if len(table.extra) > 1 and dialect.renames:
            kinds.append(self._swap_names)
        made = self._chance.choice(kinds)(table)
        if self._chance.random() < 0.2:
            made += self._chance.choice(kinds)(table) if table.extra else self._add(table)
        return made

    def _later(self) -> Iterator[Transaction]:
        """A table is created, with rows, and changes at once; an older one is dropped."""
        older = [table for table in self.tables if table.name.startswith(LATER)]
        if len(older) >= _MOST_LATER_TABLES:
            self.tables.remove(older[0])
            yield [f"DROP TABLE {older[0].name}"]
        self._columns += 1
        table = Table(f"{LATER}{self._columns}", ["id"])
        self.tables.append(table)
        yield [f"CREATE TABLE {table.name} (id int PRIMARY KEY, name varchar(60), n int)"]
        yield [statement for _ in range(5) for statement in self._insert(table)]
        if self._dialect.truncate and self._chance.random() < 0.5:
            yield self._truncate(table)
        yield self._add(table)
        yield self._insert(table)

    def _other_database(self) -> Iterator[Transaction]:
        """A database is created, and a table with rows in it; or the one that is there is dropped, and often created again."""
        there = [table for table in self.tables if table.name == _GUEST]
        if there:
            yield self._insert(there[0])
            self.tables.remove(there[0])
            yield [f"DROP DATABASE {OTHER}"]
            if self._chance.random() < 0.5:
                return
        yield [f"CREATE DATABASE {OTHER}"]
        table = Table(_GUEST, ["id"])
        self.tables.append(table)
        yield [f"CREATE TABLE {table.name} (id int PRIMARY KEY, name varchar(60), n int)"]
        yield [statement for _ in range(5) for statement in self._insert(table)]

    def _rename_tables(self) -> Transaction:
        """A table that came later has another name, or two have each other's; then rows of them change."""
        tables = [table for table in self.tables if table.name.startswith(LATER)]
        if not tables:
            return []
        self._columns += 1
        moves = [(tables[-1], f"{LATER}{self._columns}")]
        if len(tables) > 1 and self._chance.random() < 0.5:
            one, other = self._chance.sample(tables, 2)
            moves = [(one, f"{LATER}0"), (other, one.name), (one, other.name)]
        made: Transaction = []
        for table, name in moves:
            made.append(f"ALTER TABLE {table.name} RENAME TO {name}")
            table.name = name
        return [*made, *self._insert(moves[0][0]), *self._update(moves[-1][0])]

    def _add(self, table: Table) -> Transaction:
        if len(table.extra) >= 6:
            return self._drop(table) if self._dialect.drops else []
        kind = self._chance.choice((_TEXT, _NUMBER))
        default = ""
        if self._dialect.defaults and self._chance.random() < 0.4:
            default = f" DEFAULT {_literal('d' if kind == _TEXT else 7)}"
        table.extra.append((self._new_column(), kind))
        return [f"ALTER TABLE {table.name} ADD COLUMN {table.extra[-1][0]} {kind}{default}"]

    def _drop(self, table: Table) -> Transaction:
        """A column goes; sometimes one of the same name comes at once."""
        if not table.extra:
            return []
        name, _ = table.extra.pop(self._chance.randrange(len(table.extra)))
        made = [f"ALTER TABLE {table.name} DROP COLUMN {name}"]
        if self._chance.random() < 0.3:
            table.extra.append((name, _NUMBER))
            made.append(f"ALTER TABLE {table.name} ADD COLUMN {name} {_NUMBER}")
        return made

    def _rename(self, table: Table) -> Transaction:
        if not table.extra:
            return []
        place = self._chance.randrange(len(table.extra))
        old, kind = table.extra[place]
        table.extra[place] = (self._new_column(), kind)
        return [f"ALTER TABLE {table.name} RENAME COLUMN {old} TO {table.extra[place][0]}"]

    def _swap_names(self, table: Table) -> Transaction:
        if len(table.extra) < 2:
            return []
        (a, first), (b, second) = table.extra[0], table.extra[1]
        table.extra[:2] = [(b, first), (a, second)]
        return [f"ALTER TABLE {table.name} RENAME COLUMN {x} TO {y}" for x, y in ((a, "kept"), (b, a), ("kept", b))]

    def _retype(self, table: Table) -> Transaction:
        return self._change_type(table, self._dialect.retype)

    def _rewrite(self, table: Table) -> Transaction:
        return self._change_type(table, self._dialect.rewrite)

    def _change_type(self, table: Table, statement: str | None) -> Transaction:
        narrow = [name for name, kind in table.extra if kind == _NUMBER]
        if not narrow or statement is None:
            return []
        return [statement.format(table=table.name, column=self._chance.choice(narrow))]

    def _truncate(self, table: Table) -> Transaction:
        assert self._dialect.truncate
        return [self._dialect.truncate.format(table=table.name)]

    def _new_column(self) -> str:
        self._columns += 1
        return f"c{self._columns}"


def _literal(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)
