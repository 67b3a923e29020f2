"""Typed plugin settings: unknown keys are errors, secrets never print."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, SecretStr
from pydantic.alias_generators import to_camel


class PluginConfig(BaseModel):
    """Root of every plugin's settings model.

    Fields are snake_case in Python and camelCase in the pipeline JSON. Macros are resolved before validation. Secret
    fields are `SecretStr` (also `Secret` here); a validation error never repeats the input.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        hide_input_in_errors=True,
        validate_default=True,
    )


if TYPE_CHECKING:
    from typing_extensions import TypeVar

    ConfigT_co = TypeVar("ConfigT_co", bound=PluginConfig, covariant=True, default=PluginConfig)
else:
    from typing import TypeVar

    ConfigT_co = TypeVar("ConfigT_co", bound=PluginConfig, covariant=True)  # a default needs Python 3.13 at run time

Secret = SecretStr
"""A value that prints as stars; `get_secret_value()` where the driver needs it, as late as possible."""


class OutOfRange(enum.StrEnum):
    """What happens to a value that the standard type cannot hold (infinite dates, NaN decimals, years beyond 1 to 9999)."""

    FAIL = "fail"
    """The table stops with a `DataError`; nothing is lost."""
    NULL = "null"
    """NULL is written and counted."""
    CLAMP = "clamp"
    """The nearest value the type holds is written and counted; NULL where no value is nearest (NaN)."""
