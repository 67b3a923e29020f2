"""Fingerprints of tables at their last copy, kept over restarts; an unlogged difference requires a new copy."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import Any

from replicator_sdk.context import DeltaSourceContext

_SHARDS, _FORMER_SHARDS = 16, 64
"""Documents of all tables, and how many an earlier release had: a multiple, so that what is one now was several."""
_STATE_LOCK = threading.Lock()
"""Snapshots of several tables begin in several threads while the reader's thread checks others."""


@dataclass(frozen=True, slots=True)
class PublicationMembership:
    """The catalogue entries by which a publication includes a table; new ones when it is removed and added again.

    Attributes:
        publication: The publication's identifier.
        version: The transaction that changed its settings last.
        settings: The settings that do not affect which changes of an ordinary table are published: its owner, and
            whether partitions are published under their table.
        entries: The entries that name the table, its schema or all tables, by their identifiers.
    """

    publication: int
    version: int
    settings: str
    entries: tuple[int, ...]

    def continues(self, before: PublicationMembership, *, is_partitioned: bool) -> bool:
        """Whether every change since `before` was published."""
        if self.publication != before.publication or not set(self.entries) & set(before.entries):
            return False
        # A change of owner, say, is a new version with other settings; the same settings hide what was in between.
        return self.version == before.version or (self.settings != before.settings and not is_partitioned)


@dataclass(frozen=True, slots=True)
class PartitionNode:
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
class TableFingerprint:
    """The properties of a table at one moment whose changes the log does not carry.

    Attributes:
        digest: Of all below; equal digests are equal fingerprints.
        horizon: All transactions below it (64 bits) had ended.
        membership: In the publication; None when it is not published.
        columns: The transaction that changed each column's definition last, by attribute number.
        labels: The values of its enums by identifier; a changed label changes stored values.
        composites: The definition of each composite type by identifier.
        members: Itself and its partitions.
        replaces_chunks: Whether chunks read before it must be read again. The runtime may still have their plan, when a
            process ends just after this was stored.
        copied_as: The name under which the table was copied last; empty when an older release copied it.
    """

    digest: str
    horizon: int
    membership: PublicationMembership | None
    columns: dict[int, int]
    labels: dict[int, str]
    composites: dict[int, str]
    members: dict[int, PartitionNode]
    replaces_chunks: bool = False
    copied_as: str = ""

    def to_json(self) -> dict[str, Any]:
        """The form stored in state."""
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
            "copiedAs": self.copied_as,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> TableFingerprint:
        """The inverse of `to_json`."""
        m = value["membership"]
        return cls(
            value["digest"],
            value["horizon"],
            m and PublicationMembership(m[0], m[1], m[2], tuple(m[3])),
            {int(k): v for k, v in value["columns"].items()},
            {int(k): v for k, v in value["labels"].items()},
            {int(k): v for k, v in value["composites"].items()},
            {int(k): PartitionNode(*v) for k, v in value["members"].items()},
            value["replacesChunks"],
            value.get("copiedAs", ""),
        )


class FingerprintStore:
    """The fingerprints of all copied tables in state, by object identifier; safe from any thread.

    Stored in a fixed number of documents, so that one table's change writes little and a start reads few. A document that does not
    exist yet has what those of an earlier release have of its tables, which are not written any more.
    """

    def __init__(self, context: DeltaSourceContext) -> None:
        self._context = context
        self._documents: dict[int, dict[str, Any]] = {}

    def get(self, oid: int) -> TableFingerprint | None:
        """The table's fingerprint; None when none was stored, as by an older release."""
        shard = oid % _SHARDS
        if shard not in self._documents:
            self._documents[shard] = self._load(shard)
        found = self._documents[shard].get(str(oid))
        return None if found is None else TableFingerprint.from_json(found)

    def put(self, oid: int, fingerprint: TableFingerprint) -> None:
        """Store it; durable when this returns."""
        with _STATE_LOCK:
            document = self._load(oid % _SHARDS)
            document[str(oid)] = fingerprint.to_json()
            self._store(oid % _SHARDS, document)

    def forget(self, oid: int) -> None:
        """The table is gone; durable when this returns. Nothing happens when none is stored."""
        with _STATE_LOCK:
            document = self._load(oid % _SHARDS)
            if document.pop(str(oid), None) is not None:
                self._store(oid % _SHARDS, document)

    def _load(self, shard: int) -> dict[str, Any]:
        content = self._context.get_state(_key(shard))
        if content is not None:
            return dict(json.loads(content))
        former = (self._context.get_state(f"postgres-origins-{n}") for n in range(shard, _FORMER_SHARDS, _SHARDS))
        return {oid: found for content in former for oid, found in json.loads(content or b"{}").items()}

    def _store(self, shard: int, document: dict[str, Any]) -> None:
        self._context.put_state(_key(shard), json.dumps(document).encode())
        self._documents[shard] = document


def _key(shard: int) -> str:
    return f"postgres-fingerprints-{shard}"
