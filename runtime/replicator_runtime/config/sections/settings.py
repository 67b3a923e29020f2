"""The root of all typed settings of the pipeline JSON."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Settings(BaseModel):
    """Root of the models here: frozen, strict about keys, and silent about values in its errors."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,  # for Python callers; the JSON is read by its camelCase keys only
        hide_input_in_errors=True,
        validate_default=True,
    )
