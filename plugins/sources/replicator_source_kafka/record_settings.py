"""Settings that say of a record without an envelope which tables it is for, and what it does (seed 004, fan-out and mutations)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from replicator_sdk.config import PluginConfig
from replicator_sdk.event import DMLOperation

_Name = Annotated[str, Field(min_length=1)]


class Route(PluginConfig):
    """Which records are for a table."""

    table: _Name | None = Field(
        default=None,
        description="The table, as `database.schema.table`, `database.table` or `table`; left out, the records are passed over.",
    )
    matches: _Name | None = Field(
        default=None,
        description="A regular expression that the whole value of `tableField` must match; left out, every record is for the table.",
    )

    @field_validator("matches")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        try:
            re.compile(value or "")
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from None
        return value

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.table is None and self.matches is None:
            raise ValueError("give a table, or what the records match that are passed over")
        return self

    def takes(self, value: str | None) -> bool:
        """Whether a record with this value of `tableField` is for it; None where it has none."""
        return self.matches is None or (value is not None and re.fullmatch(self.matches, value) is not None)


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
        for operation in (DMLOperation.INSERT, DMLOperation.UPDATE, DMLOperation.DELETE):
            values: tuple[str, ...] = getattr(self, operation.name.lower())
            yield from ((value, operation) for value in values)
