"""Distributed (XA) transactions: their rows are in the log where they were prepared and count from where they commit.

Between the two other transactions commit, and the replicator may be restarted. Rows are held in memory; the offsets in
between hold where the earliest of them began, and reading begins there after a restart.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from replicator_sdk.batch import ChangeBatch
from replicator_sdk.errors import DataError, HistoryLostError
from replicator_source_mysql.hints import COPY_AGAIN
from replicator_source_mysql.offset import MySqlOffset

Xid = tuple[int, bytes, bytes]

_HELD_BYTES = 256 << 20


@dataclass(slots=True)
class HeldRows:
    """The row changes of one such transaction.

    Attributes:
        begin: Where its group begins, on the server that is read.
        batches: Its changes, with ordinals from 0.
        count: How many.
    """

    begin: MySqlOffset
    batches: list[ChangeBatch] = field(default_factory=list)
    count: int = 0

    def numbered(self, first: int) -> list[ChangeBatch]:
        """The changes with ordinals from `first`."""
        return [replace(batch, ordinals=batch.ordinals + first) for batch in self.batches]


class PreparedTransactions:
    """Those that are prepared and neither committed nor rolled back, as far as the log has been read. One thread.

    Attributes:
        current: The one whose rows are being read; None outside of such a group.
    """

    def __init__(self) -> None:
        self._held: dict[Xid, HeldRows] = {}
        self.current: HeldRows | None = None

    def begin(self, place: MySqlOffset) -> None:
        """A group begins at `place` that ends with a prepare."""
        if self.current is None:
            self.current = HeldRows(place)

    def hold(self, batch: ChangeBatch) -> None:
        """Keep a change of the current group.

        Raises:
            DataError: When more is held than fits into memory.
        """
        assert self.current is not None
        self.current.batches.append(batch)
        held = sum(b.nbytes for rows in (*self._held.values(), self.current) for b in rows.batches)
        if held > _HELD_BYTES:
            raise DataError(
                f"prepared transactions hold more than {_HELD_BYTES >> 20} MiB of changes",
                code="RPL-3794",
                table=str(batch.table),
                position=str(self.current.begin),
                hint="commit or roll back prepared transactions sooner (XA RECOVER lists them), or make them smaller",
            )

    def prepare(self, xid: Xid) -> None:
        """The current group is prepared under this name."""
        if self.current is not None:
            self._held[xid] = self.current
        self.current = None

    def take_current(self) -> HeldRows | None:
        """The current group has committed by itself (ONE PHASE)."""
        rows, self.current = self.current, None
        return rows

    def commit(self, xid: Xid, place: str) -> HeldRows:
        """The rows of a transaction that commits at `place`.

        Raises:
            HistoryLostError: When it was prepared before reading began.
        """
        rows = self._held.pop(xid, None)
        if rows is None:
            raise HistoryLostError(
                "a distributed transaction was committed that had been prepared before replication began",
                code="RPL-3795",
                position=place,
                hint="grant the account XA_RECOVER_ADMIN (MySQL), so that a start waits until none is prepared; or wait until XA RECOVER"
                f" lists nothing; then {COPY_AGAIN}",
            )
        return rows

    def roll_back(self, xid: Xid) -> None:
        """Forget the transaction."""
        self._held.pop(xid, None)

    @property
    def earliest(self) -> MySqlOffset | None:
        """Where reading has to go on after a restart; None when nothing is held."""
        return min((rows.begin for rows in self._held.values()), default=None)
