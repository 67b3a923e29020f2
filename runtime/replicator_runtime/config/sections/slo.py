"""The key `slo`, of the pipeline and of entries of `tables`: freshness objectives."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from replicator_runtime.config.sections.settings import Settings


def _whole_days(text: str) -> str:
    if not 1 <= int(text.removesuffix("d")) <= 90:
        raise ValueError("a window has 1 to 90 days")
    return text


_Window = Annotated[
    str,
    Field(pattern=r"^[0-9]{1,4}d$", json_schema_extra={"rule": "is a number of days, such as 30d"}),
    AfterValidator(_whole_days),
]


class SloConfig(Settings):
    """A freshness objective: so many percent of the time, what the source committed is in the target within so many minutes."""

    percent: float = Field(default=99.0, gt=0, le=100, description="For how much of the time.")
    minutes: float = Field(default=5.0, gt=0, description="Within how many minutes.")
    window: _Window = Field(
        default="30d", description="Over how many days in UTC, the present one included: `1d` to `90d`."
    )

    @property
    def days(self) -> int:
        """The days of the window."""
        return int(self.window.removesuffix("d"))


class TableSloConfig(Settings):
    """What is other in the objective of these tables; the rest is as the pipeline's `slo` says."""

    percent: float | None = Field(
        default=None, ge=0, le=100, description="For how much of the time; 0 for tables without an objective."
    )
    minutes: float | None = Field(default=None, gt=0, description="Within how many minutes.")
    window: _Window | None = Field(default=None, description="Over how many days: `1d` to `90d`.")

    def within(self, of_all: SloConfig | None) -> SloConfig | None:
        """The objective of a table, with what the pipeline says of all; None when it has none."""
        if self.percent == 0:
            return None
        return (of_all or SloConfig()).model_copy(update=self.model_dump(exclude_none=True))
