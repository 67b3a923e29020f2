"""What a source says of itself while a run reads it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceHealth:
    """A source at one moment; what it does not know is None.

    Attributes:
        clock: The source's own time, in seconds since 1970, read at about the middle of the call: commit times are by this clock.
        waiting_bytes: Bytes of log after the offset that was saved last.
        waiting_changes: Changes or records after it.
        held_bytes: Bytes of log that the source keeps for this replicator only.
        held_limit_bytes: At so many it gives them up.
        retention_seconds: How long it keeps log after it was written, whoever needs it.
    """

    clock: float | None = None
    waiting_bytes: int | None = None
    waiting_changes: int | None = None
    held_bytes: int | None = None
    held_limit_bytes: int | None = None
    retention_seconds: float | None = None
