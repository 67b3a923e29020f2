"""Finds changes of captured tables that the log does not carry: detached partitions, rewritten values, gaps in publishing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import structlog

from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.errors import RowsRewrittenError, SnapshotNeededError
from replicator_sdk.schema import TableId
from replicator_source_postgres.catalogue import Catalogue
from replicator_source_postgres.replication.publication import removed_from_publication
from replicator_source_postgres.unlogged.fingerprint import FingerprintStore, PartitionNode, TableFingerprint
from replicator_source_postgres.unlogged.fingerprint_query import FingerprintQuery, NewPartition

log = structlog.get_logger(__name__)
_REWRITTEN = "its rows were rewritten by ALTER TABLE"


class UnloggedChanges:
    """Compares tables with their fingerprints at the last copy; used by one thread.

    A difference is stored nowhere until the table is copied again, when its snapshot stores a new fingerprint: a process
    that ends after it found one, or before, finds it again.

    Args:
        catalogue: Outside of any transaction, or inside one whose snapshot is to be compared.
        publication: The publication's name.
        context: Stores the fingerprints.
    """

    def __init__(self, catalogue: Catalogue, publication: str, context: DeltaSourceContext) -> None:
        self._query = FingerprintQuery(catalogue, publication)
        self._publication = publication
        self._store = FingerprintStore(context)
        self._digests: dict[int, str] = {}
        self._reported: set[int] = set()

    def record_new(self, oids: Iterable[int]) -> None:
        """Store the fingerprints, as of now, of tables without one; a table copied by an older release has none."""
        new = [oid for oid in oids if self._store.get(oid) is None]
        for oid, fingerprint in self._query.fingerprints(new).items() if new else ():
            self._store.put(oid, fingerprint)

    def begin_copy(self, oid: int, table: TableId, *, resumes: bool) -> bool:
        """Store the fingerprint of a table that is about to be copied.

        Args:
            oid: The table.
            table: Its name.
            resumes: Whether chunks that were read before are not read again.

        Returns:
            Whether the chunks that were read before are still valid.
        """
        now = self._query.fingerprints([oid])[oid]
        before = self._store.get(oid) if resumes else None
        can_resume = (
            before is not None
            and not before.replaces_chunks
            and before.copied_as in {"", str(table)}
            and self._difference(before, now) is None
        )
        self._store.put(oid, replace(now, replaces_chunks=resumes and not can_resume, copied_as=str(table)))
        return can_resume

    def is_left_out(self, oid: int) -> bool:
        """Whether there is the publication, without this table."""
        return self._query.has_publication() and self._query.fingerprints([oid])[oid].membership is None

    def difference(self, oid: int) -> str | None:
        """What changed without the log since the table was copied; None when nothing did."""
        before, now = self._store.get(oid), self._query.fingerprints([oid]).get(oid)
        return None if before is None or now is None else self._difference(before, now)

    def mark_reported(self, oid: int) -> None:
        """Record that a schema change has already requested a copy of the table, so that `check` does not do it again."""
        self._reported.add(oid)

    def check(self, captured: Mapping[int, TableId], is_pending: Callable[[int], bool] = lambda _: False) -> None:
        """Compare all tables with their fingerprints.

        Args:
            captured: The tables by identifier.
            is_pending: Whether the log will still show a change of a table's columns, which then requests the copy. At the
                start no table counts as pending: a run may end before it has read that far.

        Raises:
            SnapshotNeededError: For the first table that must be copied again.
            TableHistoryLostError: For the first one that is not published any more.
        """
        digests = self._query.digests(list(captured))
        changed = sorted(oid for oid, digest in digests.items() if self._known_digest(oid) != digest)
        if not changed:
            return
        to_raise: Exception | None = None
        for oid, now in self._query.fingerprints(changed).items():
            table, before = captured[oid], self._store.get(oid)
            if now.membership is None or now.members[oid].persistence != "p":
                to_raise = to_raise or removed_from_publication(self._publication, table)
                continue
            why = None if before is None else self._difference(before, now)
            if why is None:
                self._store.put(oid, now if before is None else replace(now, copied_as=before.copied_as))
                self._digests[oid] = now.digest
            elif oid not in self._reported and not is_pending(oid):
                to_raise = to_raise or copy_again(table, why)
        if to_raise is not None:
            raise to_raise

    def _known_digest(self, oid: int) -> str | None:
        if oid not in self._digests:
            fingerprint = self._store.get(oid)
            # A table that is read from the log has been copied, so that its next snapshot may be resumed.
            self._digests[oid] = "" if fingerprint is None or fingerprint.replaces_chunks else fingerprint.digest
        return self._digests[oid]

    def _difference(self, before: TableFingerprint, now: TableFingerprint) -> str | None:
        """Why rows may differ from copy and log; None when they cannot."""
        is_partitioned = any(member.kind == "p" for member in now.members.values())
        if before.membership is not None and (
            now.membership is None or not now.membership.continues(before.membership, is_partitioned=is_partitioned)
        ):
            return "it left its publication, or the publication was changed, and changes in between are not in the log"
        if any(now.labels.get(oid, label) != label for oid, label in before.labels.items()):
            return "a value of an enum was renamed"
        if any(now.composites.get(oid, text) != text for oid, text in before.composites.items()):
            return "a composite type was altered"
        return self._tree_difference(before, now) if is_partitioned else self._rewrite(before, now)

    def _rewrite(self, before: TableFingerprint, now: TableFingerprint) -> str | None:
        """For an ordinary table: the log has its TRUNCATE, but not what ALTER TABLE computes."""
        ((oid, file),) = now.members.items()
        if before.columns == now.columns or file.file == before.members[oid].file:
            return None
        if self._query.holds_rows_older_than(oid, before.horizon):
            return None
        return _REWRITTEN

    def _tree_difference(self, before: TableFingerprint, now: TableFingerprint) -> str | None:
        for oid, member in before.members.items():
            current = now.members.get(oid)
            if current is None and member.kind != "p":
                return "a partition was detached or dropped"
            if current is None:
                continue
            if (current.parent, current.link) != (member.parent, member.link):
                return "a partition was detached and attached again"
            if current.file != member.file and not self._query.holds_rows_older_than(oid, before.horizon):
                return "a partition was truncated or rewritten"
        new = [oid for oid in now.members if oid not in before.members]
        return self._attached(before.members, now.members, self._query.new_partitions(new)) if new else None

    @staticmethod
    def _attached(
        before: Mapping[int, PartitionNode],
        now: Mapping[int, PartitionNode],
        new_partitions: Mapping[int, NewPartition],
    ) -> str | None:
        """Whether a new partition had rows before; rows inserted since it is one are in the log."""

        def is_logged(oid: int) -> bool:
            """Whether the log has every row of it and of its partitions."""
            if oid in before:
                return True
            return oid in new_partitions and new_partitions[oid].created_attached and is_logged(now[oid].parent)

        for oid, partition in new_partitions.items():
            if now[oid].kind != "p" and not partition.never_written and not is_logged(oid):
                return "a partition was attached that may have held rows"
        lost = [oid for oid in now if oid not in before and oid not in new_partitions]
        return "a partition was detached or dropped" if lost else None


def copy_again(table: TableId, why: str) -> SnapshotNeededError:
    """The error for a table that has to be copied again, because of a change that the log does not hold."""
    if why == _REWRITTEN:
        return RowsRewrittenError(
            f"{table}: {why}; the log does not hold that, so the table is copied again",
            code="RPL-3606",
            table=str(table),
            hint="nothing to do: the replicator copies the table again",
        )
    return SnapshotNeededError(
        f"{table}: {why}; the log does not hold that, so the table is copied again",
        code="RPL-3606",
        table=str(table),
        hint="nothing to do: the replicator copies the table again",
    )
