"""Settings that say of a record without an envelope which tables it is for, and what it does (seed 004, fan-out and mutations)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, field_validator, model_validator

from replicator_sdk.config import PluginConfig
from replicator_sdk.event import DMLOperation

_MOST_PARTS: Final = 3
_OWN_DATABASE: Final = "_replicator"
_Name = Annotated[str, Field(min_length=1)]


class Route(PluginConfig):
    """Which records are for a table."""

    table: _Name | None = Field(
        default=None,
        description="The table, as `database.schema.table`, `database.table` or `table`; left out, the records are passed over.",
    )
    matches: _Name | None = Field(
        default=None,
        description="A regular expression, in RE2's syntax, that the whole value of `tableField` must match; left out, every record is for the table.",
    )

    @field_validator("table")
    @classmethod
    def _names_one(cls, value: str | None) -> str | None:
        parts = [] if value is None else value.split(".")
        if len(parts) > _MOST_PARTS or not all(part.strip() == part != "" for part in parts):
            raise ValueError("not the name of a table: one to three parts with points between them")
        if len(parts) > 1 and parts[0] == _OWN_DATABASE:
            raise ValueError(f"{_OWN_DATABASE} is the replicator's own")
        return value

    @field_validator("matches")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        if value is not None:
            full_match(value, pa.array([""]))
        return value

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.table is None and self.matches is None:
            raise ValueError("give a table, or what the records match that are passed over")
        return self

    def takes(self, values: pa.Array) -> np.ndarray:
        """Which of these values of `tableField` are those of records that it takes; NULL is one of a record without it."""
        return np.ones(len(values), np.bool_) if self.matches is None else full_match(self.matches, values)


def full_match(pattern: str, values: pa.Array) -> np.ndarray:
    """Which texts match a pattern of RE2 as a whole; NULL does not. Takes time in proportion to the texts, whatever the pattern.

    Raises:
        ValueError: When it is none.
    """
    try:
        found = pc.match_substring_regex(values, rf"\A(?:{pattern})\z")
    except pa.ArrowInvalid as error:
        said = str(error).replace(rf"\A(?:{pattern})\z", pattern)
        raise ValueError(f"not a regular expression of RE2: {said}") from None
    return np.asarray(found.fill_null(False).to_numpy(zero_copy_only=False))


class Operations(PluginConfig):
    """What the values of `operationField` mean."""

    insert: tuple[_Name, ...] = Field(default=("I",), description="Of a row that is new.")
    update: tuple[_Name, ...] = Field(default=("U",), description="Of a row that was there.")
    delete: tuple[_Name, ...] = Field(default=("D",), description="Of a row that is gone.")

    @model_validator(mode="after")
    def _differ(self) -> Self:
        values = [value for value, _ in self.meanings()]
        if twice := sorted({value for value in values if values.count(value) > 1}):
            raise ValueError(f"values with two meanings: {', '.join(twice)}")
        return self

    def meanings(self) -> Iterator[tuple[str, DMLOperation]]:
        """Each value, with what it means."""
        for values, operation in (
            (self.insert, DMLOperation.INSERT),
            (self.update, DMLOperation.UPDATE),
            (self.delete, DMLOperation.DELETE),
        ):
            yield from ((value, operation) for value in values)
