"""The optional capability of a target that writes some rows of a table again."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from replicator_sdk.target import BatchConsumer

if TYPE_CHECKING:
    from replicator_sdk.batch import TableChanges


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
