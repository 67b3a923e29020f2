"""Typed plugin settings: unknown keys are errors, secrets never print."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pydantic import BaseModel, ConfigDict, SecretStr
from pydantic.alias_generators import to_camel

from replicator_sdk.discovery.assessment import Severity


@dataclass(frozen=True, slots=True)
class SettingEdit:
    """What follows when a setting is edited between two runs; said by `replicator assess` and `plan`, and logged when a run begins.

    A run begins with an edit of severity WARNING or ERROR only after it was approved, unless `checked_at_start`.

    Attributes:
        impact: What the next run does.
        suggestion: What to do about it; empty when there is nothing to do.
        severity: ERROR where tables of earlier runs stop.
        code: Of the error with which they stop.
        checked_at_start: Whether a run itself refuses the edit where it does not fit, before it changes anything.
    """

    impact: str
    suggestion: str = ""
    severity: Severity = Severity.INFO
    code: str = ""
    checked_at_start: bool = False


class PluginConfig(BaseModel):
    """Root of every plugin's settings model.

    Fields are snake_case in Python and camelCase in the pipeline JSON. Macros are resolved before validation. Secret
    fields are `SecretStr` (also `Secret` here); a validation error never repeats the input.

    Class attributes:
        edits: Setting, as in the pipeline JSON → what follows when it is edited between two runs. Others are said to be in
            effect from the next run on.
    """

    edits: ClassVar[Mapping[str, SettingEdit]] = {}

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
