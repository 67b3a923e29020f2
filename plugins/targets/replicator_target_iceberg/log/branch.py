"""Which snapshot the branch that commits go to has for its newest, also where there is no such branch yet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from replicator_sdk.errors import NeedsUserError
from replicator_sdk.schema import TableId
from replicator_target_iceberg.config import MAIN

_TAG: Final = "replicator"


def tag_of(branch: str) -> str:
    """The tag that names the newest snapshot of a branch with a record, so that no program's expiry of snapshots deletes it."""
    return _TAG if branch == MAIN else f"{_TAG}-{branch}"


def copy_branch(branch: str) -> str:
    """The branch with a later copy of a table of versions until it is complete; no name that a tag of any branch has."""
    return f"{_TAG}.copy" if branch == MAIN else f"{_TAG}.copy-{branch}"


@dataclass(frozen=True, slots=True)
class Head:
    """Where the next commit to a branch begins.

    Attributes:
        branch: The branch's name.
        is_there: Whether the table has it; if not, the next commit makes it.
        snapshot: Java's snapshot: its newest, or that of `main` where it is not there; None where there is none.
        number: Of the snapshot; -1 for none.
    """

    branch: str
    is_there: bool
    snapshot: Any | None

    @property
    def number(self) -> int:
        """See above."""
        return -1 if self.snapshot is None else int(self.snapshot.snapshotId())

    def ancestors(self, metadata: Any) -> Iterator[Any]:
        """The snapshot and those before it, as far as they were not expired."""
        snapshot = self.snapshot
        while snapshot is not None:
            yield snapshot
            parent = snapshot.parentId()
            snapshot = None if parent is None else metadata.snapshot(parent)


def find_head(metadata: Any, branch: str, table: TableId) -> Head:
    """The head of a branch.

    Args:
        metadata: Java's `TableMetadata`.
        branch: The branch's name.
        table: The table at the source, for errors.

    Raises:
        NeedsUserError: RPL-3443 when the name is that of a tag.
    """
    ref = metadata.ref(branch)
    if ref is None:
        return Head(branch, False, metadata.currentSnapshot())
    if ref.isTag():
        raise NeedsUserError(
            f"the table has a tag with the name {branch!r}, to which no one can commit",
            code="RPL-3443",
            table=str(table),
            hint="choose another `branch`, or have another program drop that tag",
        )
    return Head(branch, True, metadata.snapshot(ref.snapshotId()))


def left_commit(metadata: Any, head: Head) -> Any | None:
    """The newest snapshot of this branch, or of another, that a tag of the replicator names, where the head does not build on it.

    None where the branch is there, or goes on from where it ended: it was dropped after `main` was fast-forwarded to it.
    """
    if not head.is_there and (own := metadata.ref(tag_of(head.branch))) is not None:
        here = own.snapshotId()
        return None if any(s.snapshotId() == here for s in head.ancestors(metadata)) else metadata.snapshot(here)
    if head.snapshot is not None:
        return None
    others = sorted(name for name in dict(metadata.refs()) if name == _TAG or name.startswith(f"{_TAG}-"))
    return metadata.snapshot(metadata.ref(others[0]).snapshotId()) if others else None


def other_branches(metadata: Any, branch: str) -> list[str]:
    """The names of the branches beside one that is not `main`; none beside `main`, whose table is the replicator's as a whole."""
    refs = dict(metadata.refs())
    found = [name for name in refs if name != branch and refs[name].isBranch()]
    return [] if branch == MAIN else sorted(name for name in found if not name.startswith(copy_branch(MAIN)))


def own_snapshots(metadata: Any, head: Head) -> list[Any]:
    """All snapshots but those that only other branches and tags build on; the branch must be there."""
    own = {snapshot.snapshotId() for snapshot in head.ancestors(metadata)}
    others: set[int] = set()
    for ref in dict(metadata.refs()).values():
        snapshot = metadata.snapshot(ref.snapshotId())
        for found in Head("", True, snapshot).ancestors(metadata):
            if found.snapshotId() in own or found.snapshotId() in others:
                break
            others.add(found.snapshotId())
    return [snapshot for snapshot in metadata.snapshots() if snapshot.snapshotId() not in others]


def branch_gone(table: TableId, branch: str, left: Any) -> NeedsUserError:
    """Returns the error for a table whose newest commit is not in the branch.

    Args:
        table: The table.
        branch: The branch of the settings.
        left: What `left_commit` has returned.
    """
    return NeedsUserError(
        f"the branch {branch!r} of the table does not have what this replicator has committed last: it was dropped, or the setting was edited",
        code="RPL-3442",
        table=str(table),
        hint=f"have it created again at that snapshot, in Spark: `ALTER TABLE … CREATE OR REPLACE BRANCH {branch} AS OF VERSION {left.snapshotId()}`;"
        " or put `branch` back; or copy the table again: `replicator table resync NAME TABLE`",
    )
