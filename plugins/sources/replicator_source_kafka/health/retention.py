"""What deletes records of a topic, and how long those that are not read yet are still there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

SETTINGS: Final = ("cleanup.policy", "retention.ms", "retention.bytes", "delete.retention.ms")


@dataclass(frozen=True, slots=True)
class Retention:
    """What deletes records of a topic; None where that does not.

    Attributes:
        seconds: A record that is older (`retention.ms`).
        nbytes: A record with so many bytes after it in its partition (`retention.bytes`).
        tombstone_seconds: The removal of a key, so long after the cleaner has met it at the earliest (`delete.retention.ms`). A reader
            that is later by more than that may keep a row that is removed.
    """

    seconds: float | None = None
    nbytes: int | None = None
    tombstone_seconds: float | None = None

    @classmethod
    def of(cls, settings: Mapping[str, str | None]) -> Self:
        """By the settings of a topic."""
        policy = settings.get("cleanup.policy") or ""
        deletes, compacts = "delete" in policy, "compact" in policy
        return cls(
            _seconds(settings.get("retention.ms")) if deletes else None,
            _limit(settings.get("retention.bytes")) if deletes else None,
            _seconds(settings.get("delete.retention.ms")) if compacts else None,
        )

    @property
    def shortest(self) -> float | None:
        """The shorter one of its times."""
        return min((one for one in (self.seconds, self.tombstone_seconds) if one is not None), default=None)


@dataclass(frozen=True, slots=True, order=True)
class TimeLeft:
    """How long unread records are still there.

    Attributes:
        seconds: So long; 0 when some are gone.
        limited_by: What ends it, for people.
        of: The retention in seconds; None where it is not one of time.
    """

    seconds: float
    limited_by: str
    of: float | None = None


def by_age(topic: str, retention: Retention, age: float, least_age: float) -> list[TimeLeft]:
    """What the age of a partition's first unread record leaves.

    Args:
        topic: The topic.
        retention: Its retention.
        age: In seconds.
        least_age: The smallest one that was seen since the partition was read to its end. Where it was always above `delete.retention.ms`,
            as in the first reading of an old topic, there is no time to name: what the cleaner removed so long ago is not noticed.
    """
    left = []
    if (seconds := retention.seconds) is not None:
        left.append(TimeLeft(_within(seconds - age, seconds), f"retention.ms of the topic {topic}", seconds))
    if (seconds := retention.tombstone_seconds) is not None and least_age <= seconds:
        left.append(TimeLeft(_within(seconds - age, seconds), f"delete.retention.ms of the topic {topic}", seconds))
    return left


def by_size(topic: str, limit: int, unread: float, growth: float) -> list[TimeLeft]:
    """What is left until `retention.bytes` reaches the first unread record of a partition.

    Args:
        topic: The topic.
        limit: `retention.bytes`.
        unread: Bytes that are not read.
        growth: Bytes a second.
    """
    words = f"retention.bytes of the topic {topic}"
    if unread >= limit:
        return [TimeLeft(0.0, words)]
    return [TimeLeft((limit - unread) / growth, words)] if growth > 0 else []


def _within(left: float, most: float) -> float:
    return min(max(0.0, left), most)


def _seconds(milliseconds: str | None) -> float | None:
    limit = _limit(milliseconds)
    return None if limit is None else limit / 1000


def _limit(value: str | None) -> int | None:
    """None for -1, which is for ever, and for what the broker does not say."""
    return int(value) if value and int(value) >= 0 else None
