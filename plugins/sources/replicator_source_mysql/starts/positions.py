"""Finds the place in a server's binlog that a file and position, GTIDs or a time name. Changes nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from replicator_sdk.errors import BugError, HistoryLostError, NeedsUserError, ReplicatorError
from replicator_sdk.source import StartFrom
from replicator_source_mysql.binlog.dump.log_fingerprint import read_fingerprint
from replicator_source_mysql.binlog.event import FilePosition
from replicator_source_mysql.binlog.log_availability import current_offset, executed_gtids, file_sizes
from replicator_source_mysql.connect.connection import named_rows
from replicator_source_mysql.gtid import GtidProgress
from replicator_source_mysql.offset import MySqlOffset
from replicator_source_mysql.starts.log_walk import LogWalk

if TYPE_CHECKING:
    import pymysql

_FIRST: Final = 4
_HEAD_EVENTS: Final = 6
"""The GTIDs before a file are in one of its first events: after its description, and MariaDB's start of encryption."""
_FILE: Final = re.compile(r"([^:]+\.\d+):(\d+)")


class Positions:
    """Finds places; for one search.

    Args:
        connection: To the server.
        walk: Goes through its log.
    """

    def __init__(self, connection: pymysql.Connection[Any], walk: LogWalk) -> None:
        self._connection = connection
        self._walk = walk
        self._origin = walk.origin
        self._sizes = file_sizes(connection)
        self._files = list(self._sizes)
        self._end = current_offset(connection, walk.origin)

    def find(self, start: StartFrom) -> MySqlOffset:
        """The offset that `start` names, with the GTIDs before it and the proof of its file.

        Raises:
            NeedsUserError: RPL-3815 for what is no position, RPL-3816 when it is after the log's end or between no two transactions.
            HistoryLostError: RPL-3817 when the server does not have the log from there on.
        """
        if start.time is not None:
            found = self._by_time(start, start.time)
        elif named := _FILE.fullmatch(start.offset):
            found = self._by_place(start, named[1], int(named[2]))
        else:
            found = self._by_gtids(start, self._parsed(start.offset))
        place = FilePosition(found.file, found.position)
        proof = read_fingerprint(self._walk.endpoint, self._origin.server, place, 0, server_id=self._walk.server_id)
        return replace(found, proof=str(proof))

    def _parsed(self, text: str) -> GtidProgress:
        try:
            gtids = self._origin.gtids(text)
        except (BugError, ValueError):
            gtids = self._origin.gtids("")
        if not gtids:
            make = "MariaDB" if self._origin.server.is_mariadb else "MySQL"
            raise NeedsUserError(
                f"{text[:80]!r} is no position in the binlog of a {make} server",
                code="RPL-3815",
                hint='write `"from": {"offset": …}` as GTIDs (what `gtid_executed` or `gtid_binlog_pos` was there) or as `binlog.000003:1234`',
            )
        return gtids

    # ------------------------------------------------------------ file and position

    def _by_place(self, start: StartFrom, file: str, position: int) -> MySqlOffset:
        there = FilePosition(file, position)
        if not self._walk.is_before(there, self._end_place) and there != self._end_place:
            raise self._too_late(start)
        if file not in self._sizes:
            raise self._gone(start)
        before, progress = FilePosition(file, _FIRST), self._gtids_before(file)
        for group in self._walk.groups(before, there):
            if self._walk.is_before(there, group.end):
                raise _between_none(start, group.begin)
            if group.gtid is not None:
                progress.add(group.gtid)
        if position < _FIRST or position > self._sizes[file]:
            raise _between_none(start, before)
        return self._offset(there, progress)

    @property
    def _end_place(self) -> FilePosition:
        return FilePosition(self._end.file, self._end.position)

    # ------------------------------------------------------------ GTIDs

    def _by_gtids(self, start: StartFrom, wanted: GtidProgress) -> MySqlOffset:
        """The place after which exactly these transactions have been executed, in the order of this server's log."""
        if not executed_gtids(self._connection, self._origin).covers(wanted):
            raise self._too_late(start)
        known = [(file, before) for file in reversed(self._files) if wanted.covers(before := self._gtids_before(file))]
        if not known:
            raise self._gone(start)
        file, progress = known[0]
        place = FilePosition(file, _FIRST)
        if str(progress) == str(wanted):
            return self._offset(place, progress)
        for group in self._walk.groups(place, self._end_place):
            if group.gtid is not None:
                progress.add(group.gtid)
                if str(progress) == str(wanted):
                    return self._offset(group.end, progress)
        raise NeedsUserError(
            f"no run can begin at {start}: there is no place in this server's log with exactly these transactions before it",
            code="RPL-3816",
            hint="give the GTIDs that this server had executed at one moment, or file and position",
        )

    def _gtids_before(self, file: str) -> GtidProgress:
        """The GTIDs executed before a file."""
        heads = named_rows(self._connection, f"SHOW BINLOG EVENTS IN %s LIMIT {_HEAD_EVENTS}", [file])
        for event in heads:
            if event["event_type"] in {"Previous_gtids", "Gtid_list"}:
                return self._origin.gtids(str(event["info"]).strip("[]"))
        return self._origin.gtids("")

    # ------------------------------------------------------------ time

    def _by_time(self, start: StartFrom, moment: datetime) -> MySqlOffset:
        if moment > datetime.now(UTC):
            raise self._too_late(start)
        first = self._file_before(self._files, int(moment.timestamp()))
        if first is None:
            raise self._gone(start)
        place, progress = FilePosition(first, _FIRST), self._gtids_before(first)
        at = int(moment.timestamp()) * 1_000_000  # all of its second, where the log says no more
        if not self._origin.server.is_mariadb:
            at += moment.microsecond
        for group in self._walk.groups(place, self._end_place):
            if group.timestamp >= at:
                return self._offset(group.begin, progress)
            if group.gtid is not None:
                progress.add(group.gtid)
        return self._end

    def _file_before(self, files: Sequence[str], second: int) -> str | None:
        """The last file that was created before that second; None when there is none: what is in later files was committed later."""
        low, high = 0, len(files)
        while low < high:
            middle = (low + high) // 2
            if self._created(files[middle]) < second:
                low = middle + 1
            else:
                high = middle
        return files[low - 1] if low else None

    def _created(self, file: str) -> int:
        place = FilePosition(file, _FIRST)
        walk = self._walk
        return read_fingerprint(walk.endpoint, walk.origin.server, place, 0, server_id=walk.server_id).created

    # ------------------------------------------------------------ results

    def _offset(self, place: FilePosition, gtids: GtidProgress) -> MySqlOffset:
        known = gtids if self._origin.has_gtids else self._origin.gtids("")
        return MySqlOffset(place.file, place.position, known.copy(), self._origin.identity)

    def _too_late(self, start: StartFrom) -> NeedsUserError:
        why = (
            "that moment has not come"
            if start.time is not None
            else f"this server's log ends at {self._end}, before it"
        )
        return NeedsUserError(
            f"no run can begin at {start}: {why}",
            code="RPL-3816",
            hint=f'`snapshot.from`: give "{self._end}", or an earlier position; without `from` the pipeline begins now',
        )

    def _gone(self, start: StartFrom) -> ReplicatorError:
        first = f"{self._files[0]}:{_FIRST}" if self._files else "nothing"
        return HistoryLostError(
            f"the server does not have its log from {start} on: it begins at {first}",
            code="RPL-3817",
            hint=f'begin at `"from": {{"offset": "{first}"}}`, the earliest position that it has',
        )


def _between_none(start: StartFrom, before: FilePosition) -> NeedsUserError:
    return NeedsUserError(
        f"no run can begin at {start}, which is not between two transactions",
        code="RPL-3816",
        hint=f'`snapshot.from`: give "{before}", which is the place before it',
    )
