"""The log lines that are kept beside the state."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from replicator_runtime.config.sections.settings import Settings


class LogsConfig(Settings):
    """The log lines that are kept beside the state."""

    keep: bool = Field(default=True, description="Whether a run's log lines are kept; `replicator logs` reads them.")
    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info",
        description="Lines below this level are not kept; those of `debug` may quote values of rows. What a run writes to standard error is chosen by `--log-level`.",
    )
    max_bytes: int = Field(
        default=67_108_864,
        ge=4_194_304,
        description="The oldest lines beyond so many bytes are deleted; the same of Spark's own.",
    )
    max_days: float = Field(default=30.0, gt=0, description="Lines older than this are deleted, a day later at most.")
