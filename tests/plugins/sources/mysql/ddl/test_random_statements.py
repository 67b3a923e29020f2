"""Random walks of statements over several tables: the history stays what the catalogue says."""

from __future__ import annotations

import random
from collections.abc import Callable

import pymysql
import pytest

from tests.plugins.sources.mysql.ddl.server_oracle import ServerOracle, compare

_TABLES = ("a", "b", "c")
_COLUMNS = ("x", "y", "z", "Long Name", "key", "1st")
_TYPES = (
    "int", "int unsigned", "bigint(20)", "tinyint(1)", "decimal(8,2)", "varchar(20)", "varchar(20) charset latin1",
    "char(3)", "text(300)", "mediumtext", "enum('p','q''r')", "set('s','t')", "datetime(3)", "date", "time(2)", "year",
    "bit(5)", "double", "float(7,2)", "varbinary(9)", "json", "national char(4)", "timestamp(3) null", "blob(10)",
)  # fmt: skip
_PLACES = ("", "", " first", " after `x`", " after `y`")
_ATTRIBUTES = (
    "",
    "",
    " not null",
    " null",
    " default null",
    " comment 'c, (d'",
    " unique",
    " primary key",
    " /*! null */",
)

Rng = random.Random


def _column(rng: Rng) -> str:
    return f"{_name(rng)} {rng.choice(_TYPES)}{rng.choice(_ATTRIBUTES)}"


def _name(rng: Rng) -> str:
    return f"`{rng.choice(_COLUMNS)}`"


def _key(rng: Rng) -> str:
    names = ", ".join(f"`{name}`" for name in rng.sample(_COLUMNS, rng.randint(1, 2)))
    kind = rng.choice(("unique", "unique key", "index", "primary key", "unique `u`", "constraint `s` unique"))
    return f"{kind} ({names})"


def _create(rng: Rng) -> str:
    columns = ", ".join(
        f"`{name}` {rng.choice(_TYPES)}{rng.choice(_ATTRIBUTES)}" for name in rng.sample(_COLUMNS, rng.randint(2, 5))
    )
    options = rng.choice(("", " charset latin1", " engine=innodb collate utf8mb4_bin", " comment 'x'"))
    replaces = rng.choice(("", "if not exists "))
    return f"create table {replaces}{_table(rng)} ({columns}, {_key(rng)}){options}"


def _table(rng: Rng) -> str:
    return f"{rng.choice(('h1', 'h2'))}.{rng.choice(_TABLES)}"


_ACTIONS: tuple[Callable[[Rng], str], ...] = (
    lambda rng: f"add column {_column(rng)}{rng.choice(_PLACES)}",
    lambda rng: f"add {_column(rng)}{rng.choice(_PLACES)}",
    lambda rng: f"add {_key(rng)}",
    lambda rng: f"drop column {_name(rng)}",
    lambda rng: f"drop {rng.choice(('primary key', 'index `u`', 'index `x`', 'key `y`', 'constraint `s`'))}",
    lambda rng: f"modify {_column(rng)}{rng.choice(_PLACES)}",
    lambda rng: f"change {_name(rng)} {_column(rng)}{rng.choice(_PLACES)}",
    lambda rng: f"rename column {_name(rng)} to {_name(rng)}",
    lambda rng: f"alter {_name(rng)} set default {rng.choice(('1', 'null', chr(39) * 2))}",
    lambda rng: f"alter {_name(rng)} drop default",
    lambda rng: f"convert to character set {rng.choice(('latin1', 'utf8mb4', 'utf8mb3'))}",
    lambda rng: f"default charset {rng.choice(('latin1', 'utf8mb4'))}",
    lambda rng: f"rename to {_table(rng)}",
    lambda rng: "force",
)


def _alter(rng: Rng) -> str:
    actions = ", ".join(rng.choice(_ACTIONS)(rng) for _ in range(rng.randint(1, 3)))
    return f"alter table {_table(rng)} {actions}"


def _rename(rng: Rng) -> str:
    first, second = _table(rng), _table(rng)
    return rng.choice(
        (
            f"rename table {first} to {second}",
            f"rename table {first} to h1.tmp, {second} to {first}, h1.tmp to {second}",
        )
    )


_STATEMENTS: tuple[Callable[[Rng], str], ...] = (
    _create, _create, _alter, _alter, _alter, _alter, _alter, _alter, _rename,
    lambda rng: f"drop table {_table(rng)}",
    lambda rng: f"create table {_table(rng)} like {_table(rng)}",
    lambda rng: f"truncate {_table(rng)}",
)  # fmt: skip


ALTERED = (_ACTIONS[0], _ACTIONS[2], _ACTIONS[7], _ACTIONS[8], _ACTIONS[13])
"""Those that say what was before."""


def any_statement(rng: Rng) -> str:
    """One of them all; a server refuses most."""
    return rng.choice(_STATEMENTS)(rng)


@pytest.mark.parametrize("seed", range(3))
def test_random_statements(oracle: ServerOracle, seed: int) -> None:
    rng = random.Random(seed)
    taken: list[str] = []
    while len(taken) < 50:
        statement = rng.choice(_STATEMENTS)(rng)
        try:
            oracle.query(oracle.placed(statement))
        except pymysql.MySQLError:
            continue  # most of what a random walk asks for is refused, and changes nothing
        taken.append(statement)
        oracle.follow()
        compare(oracle)
