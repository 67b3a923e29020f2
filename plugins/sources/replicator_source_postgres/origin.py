"""What a table was when it was copied, kept over restarts: whatever differs now without the log is a reason to copy again."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import Any

from replicator_sdk.context import DeltaSourceContext

_SHARDS = 64
_STATE_LOCK = threading.Lock()
"""Snapshots of several tables begin in several threads while the reader's thread looks at others."""


@dataclass(frozen=True, slots=True)
class Membership:
    """Why a publication delivers a table; identifiers change when the table leaves and comes back.

    Attributes:
        publication: The publication's identifier.
        version: The transaction that changed its settings last.
        settings: Those settings that do not decide which changes of an ordinary table are published: its owner and
            whether partitions are published under their table.
        entries: The entries that name the table, its schema or all tables, by their identifiers.
    """

    publication: int
    version: int
    settings: str
    entries: tuple[int, ...]

    def continues(self, before: Membership, *, is_partitioned: bool) -> bool:
        """Whether every change since `before` was published."""
        if self.publication != before.publication or not set(self.entries) & set(before.entries):
            return False
        # A change of owner, say, is a new version with other settings; the same settings hide what was in between.
        return self.version == before.version or (self.settings != before.settings and not is_partitioned)


@dataclass(frozen=True, slots=True)
class Member:
    """A table in the tree of a partitioned table, or an ordinary table by itself.

    Attributes:
        parent: The table it is a partition of; 0 for the captured table.
        link: The transaction that made it a partition; 0 for the captured table.
        file: Its file; another one after a rewrite; 0 for a partitioned table.
        kind: `r` ordinary, `p` partitioned, `f` foreign.
        persistence: `p` permanent, `u` unlogged.
    """

    parent: int
    link: int
    file: int
    kind: str
    persistence: str


@dataclass(frozen=True, slots=True)
class Origin:
    """A table at one moment, as far as the log does not carry it.

    Attributes:
        digest: Of all below; equal digests are equal origins.
        horizon: All transactions below it (64 bits) had ended.
        membership: In the publication; None when it is not published.
        columns: The transaction that changed each column's definition last, by attribute number.
        labels: The values of its enums by identifier; a changed label changes stored values.
        composites: The definition of each composite type by identifier.
        members: Itself and its partitions.
        replaces_chunks: Whether chunks read before it are not to be kept. The runtime may still know their plan, when a
            process ends just after this was kept.
    """

    digest: str
    horizon: int
    membership: Membership | None
    columns: dict[int, int]
    labels: dict[int, str]
    composites: dict[int, str]
    members: dict[int, Member]
    replaces_chunks: bool = False

    def to_json(self) -> dict[str, Any]:
        """The form kept in state."""
        m = self.membership
        return {
            "digest": self.digest,
            "horizon": self.horizon,
            "membership": m and [m.publication, m.version, m.settings, list(m.entries)],
            "columns": self.columns,
            "labels": self.labels,
            "composites": self.composites,
            "members": {oid: [p.parent, p.link, p.file, p.kind, p.persistence] for oid, p in self.members.items()},
            "replacesChunks": self.replaces_chunks,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Origin:
        """The inverse of `to_json`."""
        m = value["membership"]
        return cls(
            value["digest"],
            value["horizon"],
            m and Membership(m[0], m[1], m[2], tuple(m[3])),
            {int(k): v for k, v in value["columns"].items()},
            {int(k): v for k, v in value["labels"].items()},
            {int(k): v for k, v in value["composites"].items()},
            {int(k): Member(*v) for k, v in value["members"].items()},
            value["replacesChunks"],
        )


class Origins:
    """The origins of all copied tables in state, by object identifier; safe from any thread.

    Kept in a fixed number of documents, so that one table's change writes little and a start reads few.
    """

    def __init__(self, context: DeltaSourceContext) -> None:
        self._context = context
        self._shards: dict[int, dict[int, Origin]] = {}

    def get(self, oid: int) -> Origin | None:
        """The table's origin; None when none was kept, as by an older release."""
        shard = oid % _SHARDS
        if shard not in self._shards:
            self._shards[shard] = self._load(shard)
        return self._shards[shard].get(oid)

    def put(self, oid: int, origin: Origin) -> None:
        """Keep it, durable when it returns."""
        with _STATE_LOCK:
            shard = oid % _SHARDS
            kept = self._load(shard)
            kept[oid] = origin
            self._store(shard, kept)
        self._shards[shard] = kept

    def _load(self, shard: int) -> dict[int, Origin]:
        stored = json.loads(self._context.get_state(_key(shard)) or b"{}")
        return {int(oid): Origin.from_json(value) for oid, value in stored.items()}

    def _store(self, shard: int, kept: dict[int, Origin]) -> None:
        value = {str(oid): origin.to_json() for oid, origin in sorted(kept.items())}
        self._context.put_state(_key(shard), json.dumps(value).encode())


def _key(shard: int) -> str:
    return f"postgres-origins-{shard}"
