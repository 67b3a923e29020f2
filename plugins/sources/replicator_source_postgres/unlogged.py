"""Finds changes of captured tables that the log does not carry: detached partitions, rewritten values, gaps in publishing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import structlog

from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.errors import SnapshotNeededError
from replicator_sdk.schema import TableId
from replicator_source_postgres.catalogue import Catalogue
from replicator_source_postgres.origin import Member, Origin, Origins
from replicator_source_postgres.origin_look import Arrival, OriginLook
from replicator_source_postgres.publication import taken_out

log = structlog.get_logger(__name__)


class UnloggedChanges:
    """Compares tables with what they were when they were copied; used by one thread.

    A difference is kept nowhere until the table is copied again, when its snapshot writes a new origin: a process that
    ends after it noticed one, or before, finds it again.

    Args:
        catalogue: Outside of any transaction, or inside one whose snapshot is to be compared.
        publication: The publication's name.
        context: Keeps the origins.
    """

    def __init__(self, catalogue: Catalogue, publication: str, context: DeltaSourceContext) -> None:
        self._look = OriginLook(catalogue, publication)
        self._publication = publication
        self._origins = Origins(context)
        self._same: dict[int, str] = {}
        self._reported: set[int] = set()

    def adopt(self, oids: Iterable[int]) -> None:
        """Take tables without an origin as they are now; a table copied by an older release has none."""
        new = [oid for oid in oids if self._origins.get(oid) is None]
        for oid, origin in self._look.origins(new).items() if new else ():
            self._origins.put(oid, origin)

    def begin(self, oid: int, *, goes_on: bool) -> bool:
        """The table is about to be copied as it is now, from the beginning or, if it `goes_on`, but for what was read.

        Returns:
            Whether what was read before can be kept.
        """
        now = self._look.origins([oid])[oid]
        before = self._origins.get(oid) if goes_on else None
        can_go_on = before is not None and not before.replaces_chunks and self._difference(before, now) is None
        self._origins.put(oid, replace(now, replaces_chunks=goes_on and not can_go_on))
        return can_go_on

    def reason(self, oid: int) -> str | None:
        """What changed without the log since the table was copied; None when nothing did."""
        before, now = self._origins.get(oid), self._look.origins([oid]).get(oid)
        return None if before is None or now is None else self._difference(before, now)

    def report(self, oid: int) -> None:
        """The runtime was asked to copy the table, by a change of structure; this process need not ask again."""
        self._reported.add(oid)

    def check(self, captured: Mapping[int, TableId], is_behind: Callable[[int], bool] = lambda _: False) -> None:
        """Look at all tables.

        Args:
            captured: The tables by identifier.
            is_behind: Whether the log is still to show a change of a table's columns, which then asks for the copy. At
                the start nothing is left to the log: a run may end before it has read that far.

        Raises:
            SnapshotNeededError: For the first table that has to be copied again.
            TableHistoryLostError: For the first one that is not published any more.
        """
        looks = self._look.digests(list(captured))
        changed = sorted(oid for oid, digest in looks.items() if self._same_as(oid) != digest)
        if not changed:
            return
        to_raise: Exception | None = None
        for oid, now in self._look.origins(changed).items():
            table, before = captured[oid], self._origins.get(oid)
            if now.membership is None or now.members[oid].persistence != "p":
                to_raise = to_raise or taken_out(self._publication, table)
                continue
            why = None if before is None else self._difference(before, now)
            if why is None:
                self._origins.put(oid, now)
                self._same[oid] = now.digest
            elif oid not in self._reported and not is_behind(oid):
                to_raise = to_raise or _copy_again(table, why)
        if to_raise is not None:
            raise to_raise

    def _same_as(self, oid: int) -> str | None:
        if oid not in self._same:
            origin = self._origins.get(oid)
            # A table that is read from the log is copied, so that its next snapshot may be resumed again.
            self._same[oid] = "" if origin is None or origin.replaces_chunks else origin.digest
        return self._same[oid]

    def _difference(self, before: Origin, now: Origin) -> str | None:
        """Why rows may differ from what copy and log say; None when they cannot."""
        is_partitioned = any(member.kind == "p" for member in now.members.values())
        if before.membership is not None and (
            now.membership is None or not now.membership.continues(before.membership, is_partitioned=is_partitioned)
        ):
            return "it left the publication, or the publication was changed, and changes in between are not in the log"
        if any(now.labels.get(oid, label) != label for oid, label in before.labels.items()):
            return "a value of an enum was renamed"
        if any(now.composites.get(oid, text) != text for oid, text in before.composites.items()):
            return "a composite type was altered"
        return self._tree_difference(before, now) if is_partitioned else self._rewrite(before, now)

    def _rewrite(self, before: Origin, now: Origin) -> str | None:
        """Of an ordinary table: the log has its TRUNCATE, but not what ALTER TABLE computes."""
        ((oid, file),) = now.members.items()
        if before.columns == now.columns or file.file == before.members[oid].file:
            return None
        if self._look.holds_rows_older_than(oid, before.horizon):
            return None
        return "its rows were rewritten by ALTER TABLE"

    def _tree_difference(self, before: Origin, now: Origin) -> str | None:
        for oid, member in before.members.items():
            there = now.members.get(oid)
            if there is None and member.kind != "p":
                return "a partition was detached or dropped"
            if there is None:
                continue
            if (there.parent, there.link) != (member.parent, member.link):
                return "a partition was detached and attached again"
            if there.file != member.file and not self._look.holds_rows_older_than(oid, before.horizon):
                return "a partition was truncated or rewritten"
        new = [oid for oid in now.members if oid not in before.members]
        return self._arrival(before.members, now.members, self._look.arrivals(new)) if new else None

    @staticmethod
    def _arrival(
        before: Mapping[int, Member], now: Mapping[int, Member], arrivals: Mapping[int, Arrival]
    ) -> str | None:
        """Whether a new partition brought rows; those inserted since it is one are in the log."""

        def is_logged(oid: int) -> bool:
            """Whether everything below has been in the log from its first row on."""
            if oid in before:
                return True
            return oid in arrivals and arrivals[oid].born_attached and is_logged(now[oid].parent)

        for oid, arrival in arrivals.items():
            if now[oid].kind != "p" and not arrival.never_written and not is_logged(oid):
                return "a partition was attached that may have had rows"
        lost = [oid for oid in now if oid not in before and oid not in arrivals]
        return "a partition was detached or dropped" if lost else None


def _copy_again(table: TableId, why: str) -> SnapshotNeededError:
    return SnapshotNeededError(
        f"{table}: {why}; the log does not hold that, so the table is copied again",
        code="RPL-3606",
        table=str(table),
        hint="nothing to do: the replicator copies the table again",
    )
