"""A key column's leaves: BigQuery neither groups by a STRUCT nor finds one equal whose fields are NULL, so each is looked at alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from replicator_target_bigquery.fields import Field
from replicator_target_bigquery.sql.keys import comparable, same_value
from replicator_target_bigquery.sql.text import name


@dataclass(frozen=True, slots=True)
class Leaf:
    """What is compared of a key: a field that is no STRUCT, or whether a STRUCT in it is there at all.

    Attributes:
        path: Names from the key column down.
        kind: The field; None for whether the STRUCT at `path` is NULL.
        nullable: Whether it may be NULL, by itself or by a STRUCT around it.
    """

    path: tuple[str, ...]
    kind: Field | None
    nullable: bool

    def of(self, key: str) -> str:
        """The leaf in a statement, of the key column `key`; equal for equal values, and to be grouped by."""
        at = self._at(key)
        return f"{at} IS NULL" if self.kind is None else comparable(at, self.kind)

    def same(self, left: str, right: str) -> str:
        """Whether two keys are equal here."""
        if self.kind is None:
            return f"({self._at(left)} IS NULL) = ({self._at(right)} IS NULL)"
        return same_value(self.kind, self._at(left), self._at(right), nullable=self.nullable)

    def _at(self, key: str) -> str:
        return ".".join([key, *map(name, self.path)])


def leaves(key: Field) -> list[Leaf]:
    """A key column's leaves, STRUCTs in it flattened however deep."""
    return [leaf for inner in key.fields for leaf in _leaves(inner, (), nullable=False)]


def _leaves(inner: Field, path: tuple[str, ...], *, nullable: bool) -> Iterator[Leaf]:
    here, nullable = (*path, inner.name), nullable or inner.mode != "REQUIRED"
    if inner.type != "STRUCT" or inner.mode == "REPEATED":
        yield Leaf(here, inner, nullable)
        return
    if inner.mode != "REQUIRED":
        yield Leaf(here, None, nullable)
    for deeper in inner.fields:
        yield from _leaves(deeper, here, nullable=nullable)
