"""Who is notified of what, beside the log and the status."""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

from pydantic import Field, SecretStr, field_validator

from replicator_runtime.config.sections.settings import Settings

NoticeKind = Literal[
    "table_failing",
    "run_failing",
    "run_failed",
    "run_gone",
    "source_log_held",
    "objective_broken",
    "verify_differences",
    "schema_change_waiting",
    "snapshot_done",
]
NOTICE_KINDS: Final[tuple[NoticeKind, ...]] = get_args(NoticeKind)


class NotificationConfig(Settings):
    """A service that is notified of conditions, once until they are over."""

    url: SecretStr = Field(
        description="Where, as a URL of Apprise: `slack://…`, `mailtos://…`, `pagerduty://…`, `jsons://host/path` for a webhook. It is a secret: write `${secure(name)}` or `${env(NAME)}`."
    )
    on: tuple[NoticeKind, ...] = Field(
        default=NOTICE_KINDS, min_length=1, description="Of which conditions; all when left out."
    )
    held_bytes: int = Field(
        default=10_737_418_240,
        ge=1,
        description="`source_log_held`: when the source keeps more log than this for the pipeline, or has more for it after the saved offset.",
    )
    held_minutes: float = Field(
        default=60.0, gt=0, description="`source_log_held`: or when it has kept some of it for so long."
    )
    left_minutes: float = Field(
        default=360.0,
        ge=0,
        description="`source_log_held`: or when it gives some of it up in less than this, and half of its retention is over; never when 0.",
    )

    @field_validator("url", mode="before")
    @classmethod
    def _has_a_scheme(cls, value: Any) -> Any:
        text = value.get_secret_value() if isinstance(value, SecretStr) else value
        if isinstance(text, str) and "://" not in text and "${" not in text:
            raise ValueError("it is no URL with a scheme, such as jsons://host/path")
        return value
