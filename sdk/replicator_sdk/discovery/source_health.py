"""What a source says of itself while a run reads it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replicator_sdk.offset import Offset
    from replicator_sdk.schema import TableId


@dataclass(frozen=True, slots=True)
class SourceHealth:
    """A source at one moment; what it does not know is None.

    Attributes:
        clock: The source's own time, in seconds since 1970, read at about the middle of the call: commit times are by this clock.
        waiting_bytes: Bytes of log after the offset that was saved last.
        waiting_changes: Changes or records after it. Of very many it may be a part.
        held_bytes: Bytes of log that the source keeps for this replicator only.
        held_limit_bytes: At so many it gives them up.
        retention_seconds: How long it keeps log after it was written, whoever needs it.
        seconds_left: Until it gives up the first change after the offset, where the source knows that better than what follows from the
            other figures and the lag: 0 when it is gone already. None when nothing waits, too.
        limited_by: What ends that time, for people: "retention.ms of the topic shop.orders", say. Empty when nothing does, or it is not known.
        late_seconds: How late the source itself is, where it is a copy of another one: a reader that has all of it is as late.
    """

    clock: float | None = None
    waiting_bytes: int | None = None
    waiting_changes: int | None = None
    held_bytes: int | None = None
    held_limit_bytes: int | None = None
    retention_seconds: float | None = None
    seconds_left: float | None = None
    limited_by: str = ""
    late_seconds: float | None = None


class HealthProbe(ABC):
    """Asks a source again and again how it is, over connections that it keeps. One thread calls `ask`; `close` may come from another."""

    @abstractmethod
    def ask(self, offset: Offset | None, late: Mapping[TableId, Offset] | None = None) -> SourceHealth | None:
        """As `DeltaSource.health`; called again after an error, too.

        Args:
            offset: The offset that was saved last; None before the first.
            late: Tables that are before it and will be read by themselves (`DistributedLog.reads_tables_alone`), each with its offset: their
                changes are needed, too, and are no part of what waits.
        """

    @abstractmethod
    def close(self) -> None:
        """Release the connections; idempotent. A call of `ask` that blocks meanwhile ends with an error, as far as possible."""
