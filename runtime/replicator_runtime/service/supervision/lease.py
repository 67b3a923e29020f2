"""Lets one service of a database supervise its pipelines; the others serve requests, and wait.

Two things are needed. A lock on a file of the work folder, which the kernel gives back when the service is killed: who has it is
the only service of that folder. And the row of `supervisors`, for services with other work folders: it is taken over at once
from an earlier service of the same folder, and from another one when that has not renewed it for `EXPIRES_SECONDS`.
"""

from __future__ import annotations

import os
import socket
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sqlalchemy import insert, select, update
from sqlalchemy.exc import IntegrityError
from ulid import ULID

from replicator_runtime.service.file_locks import take_lock
from replicator_runtime.service.store.tables import Supervisor as SupervisorRow

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy.orm import Session

    from replicator_runtime.service.store.database import Database

EXPIRES_SECONDS = 30.0
_ONLY = 1


class SupervisorLease:
    """The right to start and stop processes. Used from one thread.

    Attributes:
        holder: This service's start.
        refusal: Why it was not taken; empty while it is held.
    """

    def __init__(self, database: Database, work_folder: Path) -> None:
        self.holder = str(ULID())
        self.refusal = "it has not been asked for yet"
        self._database = database
        self._work_folder = work_folder
        self._host = socket.gethostname()
        self._file: int | None = None

    def take(self) -> bool:
        """Take it, or renew it; whether it is held from now on."""
        if not self._lock():
            self.refusal = f"another service of {self._work_folder} supervises"
            return False
        with self._database.session() as session:
            held, other = self._take_row(session)
        self.refusal = "" if held else other
        return held

    def hold(self, session: Session) -> bool:
        """Whether it is held still; then no other service gets it before the transaction has ended."""
        renewed = session.execute(
            update(SupervisorRow)
            .where(SupervisorRow.supervisor_id == _ONLY, SupervisorRow.holder == self.holder)
            .values(renewed=datetime.now(UTC))
        )
        return _rows(renewed) == 1

    def release(self) -> None:
        """Give it back."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _lock(self) -> bool:
        if self._file is None:
            self._file = take_lock(self._work_folder / "supervisor.lock")
        return self._file is not None

    def _take_row(self, session: Session) -> tuple[bool, str]:
        """Whether the row is this service's now, and who has it otherwise."""
        if self.hold(session):
            return True, ""
        now = datetime.now(UTC)
        mine = {"holder": self.holder, "host": self._host, "work_folder": str(self._work_folder), "renewed": now}
        found = session.scalar(select(SupervisorRow).where(SupervisorRow.supervisor_id == _ONLY))
        if found is None:
            try:
                with session.begin_nested():
                    session.execute(insert(SupervisorRow).values(supervisor_id=_ONLY, **mine))
            except IntegrityError:
                return False, "another service has begun to supervise"
            return True, ""
        same_folder = (found.host, found.work_folder) == (self._host, str(self._work_folder))
        lives = abs(now - found.renewed) < timedelta(seconds=EXPIRES_SECONDS)  # far ahead: a clock that was wrong
        if not same_folder and lives:
            return False, f"the service at host {found.host}, work folder {found.work_folder}, supervises"
        taken = session.execute(
            update(SupervisorRow)
            .where(SupervisorRow.supervisor_id == _ONLY, SupervisorRow.holder == found.holder)
            .values(**mine)
        )
        return _rows(taken) == 1, "another service has begun to supervise"


def _rows(result: object) -> int:
    count: int = result.rowcount  # type: ignore[attr-defined]  # of a CursorResult
    return count
