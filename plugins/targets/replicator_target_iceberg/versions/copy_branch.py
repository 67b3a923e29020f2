"""A later copy of a table that has versions, until it is complete: a branch of its own, which no reader looks at.

Its files are in snapshots, so that no one takes them for left ones; each commit to it also says in the branch that readers see which
chunks are in.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from replicator_target_iceberg.log.branch import copy_branch
from replicator_target_iceberg.log.ranges import as_numbers, as_ranges

if TYPE_CHECKING:
    from replicator_target_iceberg.log.version import Version

_BEGAN, _OF, _CHUNKS = "replicator.copy-began", "replicator.copy-of", "replicator.copy-chunks"


@dataclass(frozen=True, slots=True)
class Aside:
    """A copy that is compared with the table when it is complete. Immutable.

    Attributes:
        began: When; microseconds since 1970 UTC.
        snapshot_id: The plan that it is of.
        chunks: The indexes of the chunks that are in. Where the table's own branch was rolled back it names fewer.
        snapshot: The number of the snapshot that has its files; -1 before the first commit.
    """

    began: int
    snapshot_id: str
    chunks: frozenset[int] = frozenset()
    snapshot: int = -1

    def properties(self) -> dict[str, str]:
        """What its snapshots say of it."""
        return {_BEGAN: str(self.began), _OF: self.snapshot_id, _CHUNKS: json.dumps(as_ranges(self.chunks))}


def aside_of(version: Version, branch: str) -> Aside | None:
    """That of a table whose commits go to `branch`; None where it takes none."""
    ref = version.metadata.ref(copy_branch(branch))
    snapshot: Any = None if ref is None else version.metadata.snapshot(ref.snapshotId())
    began = None if snapshot is None else snapshot.summary().get(_BEGAN)
    if began is None:
        return None
    summary = snapshot.summary()
    chunks = frozenset(as_numbers(json.loads(summary.get(_CHUNKS))))
    return Aside(int(began), str(summary.get(_OF)), chunks, int(snapshot.snapshotId()))
