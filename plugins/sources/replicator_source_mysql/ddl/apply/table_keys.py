"""Keys of a table as statements add, drop and rename them; names that the server generates."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from replicator_source_mysql.ddl.parse.action import KeyKind, KeySyntax
from replicator_source_mysql.definition import PRIMARY, ColumnDefinition, UniqueKey

_LONG = re.compile(r"(tiny|medium|long)?(text|blob)|json")
_STRING = re.compile(r"(var)?(char|binary)")
_EXPRESSION_NAME = "functional_index"


class InconsistentError(Exception):
    """The statement does not fit the table's definition: the history has missed a change."""


class Keys:
    """The keys of one table while a statement is applied.

    Args:
        unique: Primary and unique keys.
        plain: The other indexes.
        partial: Names of unique keys over the beginning of a column.
    """

    def __init__(
        self, unique: Iterable[UniqueKey] = (), plain: Iterable[UniqueKey] = (), partial: Iterable[str] = ()
    ) -> None:
        self._unique = list(unique)
        self._plain = list(plain)
        self._partial = set(partial)

    def follow_columns(self, new_names: Mapping[str, str | None]) -> None:
        """Columns have new names, or are dropped (None). A key whose last column is dropped is dropped too.

        Args:
            new_names: By the old name in lower case.
        """
        self._unique = _following(self._unique, new_names)
        self._plain = _following(self._plain, new_names)

    def drop(self, name: str) -> None:
        """Drop the key of this name, if there is one: the name may be that of another constraint."""
        self._unique = [key for key in self._unique if key.name.lower() != name.lower()]
        self._plain = [key for key in self._plain if key.name.lower() != name.lower()]

    def rename(self, name: str, new_name: str) -> None:
        """Give a key another name."""
        self._partial |= {
            new_name for key in self._unique if key.name.lower() == name.lower() and key.name in self._partial
        }
        self._unique = [_named(key, name, new_name) for key in self._unique]
        self._plain = [_named(key, name, new_name) for key in self._plain]

    def add_all(self, keys: Iterable[KeySyntax], column: Callable[[str], ColumnDefinition]) -> None:
        """Add keys; those without a name get the name that the server generates, in the order given.

        Foreign keys come last: they make an index only where no other serves them.

        Args:
            keys: As a statement writes them.
            column: A column of the table, whose spelling a made-up name takes over.
        """
        for key in sorted(keys, key=lambda key: key.kind is KeyKind.FOREIGN):
            self._add(replace(key, columns=tuple(column(name).name for name in key.columns)))

    def _add(self, key: KeySyntax) -> None:
        if key.kind is KeyKind.FOREIGN and self._serves(key.columns):
            return
        if key.if_not_exists and key.name and self._has(key.name):
            return
        name = PRIMARY if key.kind is KeyKind.PRIMARY else key.name or self._made_up(key.columns)
        if key.kind is not KeyKind.FOREIGN and self._has(name):
            if key.if_not_exists:
                return
            raise InconsistentError
        made = UniqueKey(name, key.columns)
        if key.kind in {KeyKind.PRIMARY, KeyKind.UNIQUE}:
            self._unique.append(made)
            self._partial |= {name} if key.is_partial else set()
        else:
            self._plain.append(made)

    def _has(self, name: str) -> bool:
        return any(key.name.lower() == name.lower() for key in [*self._unique, *self._plain])

    def _serves(self, columns: tuple[str, ...]) -> bool:
        wanted = [name.lower() for name in columns]
        return any(
            [name.lower() for name in key.columns[: len(wanted)]] == wanted for key in [*self._unique, *self._plain]
        )

    def _made_up(self, columns: tuple[str, ...]) -> str:
        base = columns[0] if columns else _EXPRESSION_NAME
        name, number = base, 1
        while self._has(name) or name.lower() == PRIMARY.lower():
            number += 1
            name = f"{base}_{number}"
        return name

    @property
    def primary(self) -> tuple[str, ...]:
        """Columns of the primary key."""
        return next((key.columns for key in self._unique if key.is_primary), ())

    def unique(self, column: Callable[[str], ColumnDefinition], *, is_ranked: bool = True) -> tuple[UniqueKey, ...]:
        """Primary and unique keys in the order in which the server looks for what identifies a row.

        That is the primary key, then keys that cannot be NULL, then the others; within each those over whole columns
        first, then as they were created. The server goes through them one after another: only after the primary key does it
        know that its columns cannot be NULL.

        Args:
            column: A column as it is written, without the NOT NULL of the primary key; names come out as it spells them.
            is_ranked: Whether the server orders them again; otherwise they keep their order.
        """
        ranked: list[tuple[bool, bool, bool, UniqueKey]] = []
        not_null: set[str] = set()
        for key in self._unique:
            columns = [column(name) for name in key.columns]
            can_be_null = not columns or any(c.nullable and c.name not in not_null for c in columns)
            spelled = replace(key, columns=tuple(c.name for c in columns))
            is_partial = self._is_partial(key.name, columns)
            ranked.append((not key.is_primary, can_be_null and not key.is_primary, is_partial, spelled))
            not_null |= {c.name for c in columns} if key.is_primary else set()
        if is_ranked:
            ranked.sort(key=lambda ranks: ranks[:3])
        return tuple(key for *_, key in ranked)

    def _is_partial(self, name: str, columns: list[ColumnDefinition]) -> bool:
        """Whether a key may hold less than its columns: the beginning of a string, or the hash of a long one (MariaDB)."""
        if any(_LONG.match(column.type) for column in columns):
            return True
        return name in self._partial and any(_STRING.match(column.type) for column in columns)

    @property
    def partial(self) -> tuple[str, ...]:
        """Names of the unique keys over the beginning of a column."""
        return tuple(sorted(key.name for key in self._unique if key.name in self._partial))

    @property
    def plain(self) -> tuple[UniqueKey, ...]:
        """The indexes that are not unique."""
        return tuple(self._plain)


def _following(keys: list[UniqueKey], new_names: Mapping[str, str | None]) -> list[UniqueKey]:
    followed = []
    for key in keys:
        named = [new_names.get(name.lower(), name) for name in key.columns]
        left = tuple(name for name in named if name is not None)
        if left or not key.columns:
            followed.append(replace(key, columns=left))
    return followed


def _named(key: UniqueKey, name: str, new_name: str) -> UniqueKey:
    return replace(key, name=new_name) if key.name.lower() == name.lower() else key
