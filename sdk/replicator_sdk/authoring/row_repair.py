"""The optional capability of a target that writes some rows of a table again."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from replicator_sdk.errors import RetryableError
from replicator_sdk.target import BatchConsumer

if TYPE_CHECKING:
    from replicator_sdk.batch import TableChanges
    from replicator_sdk.target import TableProgress


class RepairableConsumer(BatchConsumer):
    """Optional capability: writes rows of a table again that another program damaged. The runtime calls it while no changes are applied."""

    @abstractmethod
    def repair_rows(self, changes: TableChanges) -> None:
        """Make the rows of some keys as `changes` says, in one atomic commit that leaves the table where it is; durable when it returns.

        For a table with a key. An INSERT is a row that is to be there, with all its columns, a DELETE a key that is not; each key
        comes once. All rows that the table has of these keys are replaced, also where it has several; rows of other keys are not
        written. The position of `changes.identity` is the table's own, and stays it. Doing it twice is the same as once.

        Raises:
            FencedError: When the table was written by a higher epoch; nothing is changed then.
            RetryableError: When the table is at another position; nothing is changed then.
            DataError: When a value does not fit.
        """


def unmoved(found: TableProgress | None, changes: TableChanges) -> TableProgress:
    """Returns the table's progress, which a repair leaves as it is.

    Args:
        found: What the target's newest commit says; None when the table is gone or not whole.
        changes: What is to be written.

    Raises:
        RetryableError: RPL-4115 when the table is at another position than `changes.identity`.
    """
    position = changes.identity.position
    if found is None or found.position != position:
        raise RetryableError(
            f"the target's table is {'gone, or not whole' if found is None else f'at {found.position}'}",
            code="RPL-4115",
            table=str(changes.table),
            position=str(position),
            hint="give the command again; `replicator status` shows whether a run goes on",
        )
    return found
