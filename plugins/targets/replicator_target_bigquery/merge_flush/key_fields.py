"""The fields of a key column, compared one by one: BigQuery neither groups by a STRUCT nor finds two equal whose fields are NULL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from replicator_target_bigquery.schema.fields import Field
from replicator_target_bigquery.sql.comparison import comparable, same_value
from replicator_target_bigquery.sql.text import name


@dataclass(frozen=True, slots=True)
class KeyField:
    """What is compared of a key: a field that is no STRUCT, or whether a STRUCT in it is NULL.

    Attributes:
        path: Names from the key column down.
        kind: The field; None for whether the STRUCT at `path` is NULL.
        nullable: Whether it may be NULL, by itself or by a STRUCT around it.
    """

    path: tuple[str, ...]
    kind: Field | None
    nullable: bool

    def of(self, key: str) -> str:
        """The field in a statement, of the key column `key`; equal for equal values, and to be grouped by."""
        at = self._at(key)
        return f"{at} IS NULL" if self.kind is None else comparable(at, self.kind)

    def same(self, left: str, right: str) -> str:
        """Whether two keys are equal here."""
        if self.kind is None:
            return f"({self._at(left)} IS NULL) = ({self._at(right)} IS NULL)"
        return same_value(self.kind, self._at(left), self._at(right), nullable=self.nullable)

    def _at(self, key: str) -> str:
        return ".".join([key, *map(name, self.path)])


def key_fields(key: Field) -> list[KeyField]:
    """The comparable fields of a key column, nested STRUCTs flattened."""
    return [field for inner in key.fields for field in _flattened(inner, (), nullable=False)]


def _flattened(inner: Field, path: tuple[str, ...], *, nullable: bool) -> Iterator[KeyField]:
    here, nullable = (*path, inner.name), nullable or inner.mode != "REQUIRED"
    if inner.type != "STRUCT" or inner.mode == "REPEATED":
        yield KeyField(here, inner, nullable)
        return
    if inner.mode != "REQUIRED":
        yield KeyField(here, None, nullable)
    for deeper in inner.fields:
        yield from _flattened(deeper, here, nullable=nullable)
