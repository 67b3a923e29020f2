"""The stored form of a lease."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Self

from replicator_state.lease.lease_holder import LeaseHolder


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """What a lease file says.

    Attributes:
        holder: Who holds it.
        ttl_seconds: For how long a renewal is good.
        acquired_at: When it was claimed, by the holder's clock.
        renewed_at: When it was last renewed, by the holder's clock.
        beat: How often it was renewed; a change is the sign of life that depends on no clock.
        released: Whether the holder gave it back.
        token: Random, so that a holder knows its own file.
    """

    holder: LeaseHolder
    ttl_seconds: float
    acquired_at: datetime
    renewed_at: datetime
    beat: int = 0
    released: bool = False
    token: str = ""

    @property
    def expires_at(self) -> datetime:
        """When it lapses unless renewed, by the holder's clock."""
        return self.renewed_at + timedelta(seconds=self.ttl_seconds)

    def renewed(self, now: datetime, *, released: bool = False) -> Self:
        """The record one beat later."""
        return replace(self, renewed_at=now, beat=self.beat + 1, released=released)

    def to_bytes(self) -> bytes:
        """The file's content: JSON, readable by people."""
        value = {
            "holder": self.holder.to_json(),
            "ttlSeconds": self.ttl_seconds,
            "acquiredAt": self.acquired_at.isoformat(),
            "renewedAt": self.renewed_at.isoformat(),
            "beat": self.beat,
            "released": self.released,
            "token": self.token,
        }
        return json.dumps(value, indent=2).encode() + b"\n"

    @classmethod
    def from_bytes(cls, content: bytes) -> Self | None:
        """The inverse of `to_bytes`; None when the content is damaged."""
        try:
            value = json.loads(content)
            return cls(
                LeaseHolder.from_json(value["holder"]),
                float(value["ttlSeconds"]),
                datetime.fromisoformat(value["acquiredAt"]),
                datetime.fromisoformat(value["renewedAt"]),
                int(value["beat"]),
                bool(value["released"]),
                str(value["token"]),
            )
        except (ValueError, KeyError, TypeError):
            return None
