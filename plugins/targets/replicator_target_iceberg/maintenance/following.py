"""A commit that only says again how far a table is, after those of other programs, or by a newer run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from replicator_sdk.target import TableProgress
    from replicator_target_iceberg.table import Attempt, TargetTable

register("iceberg.others.followed")


def say_again(table: TargetTable, attempt: Attempt, progress: TableProgress) -> Attempt:
    """The version after a commit without rows that says how far the table is, under this run's epoch.

    Without it, what is expired between two commits of other programs would leave a table that says nothing of itself: one that the source seldom
    changes, and another program compacts each night.
    """
    change = table.change(attempt)
    table.commit(attempt, change, table.ownership.taken_over(progress), change.append)
    failpoint("iceberg.others.followed")
    return table.begin()
