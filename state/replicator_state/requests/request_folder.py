"""The requests of one replicator, `<ULID>.request`, each with the files that say who carries it out and what happened to it."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from ulid import ULID

from replicator_state.requests.request import Outcome, OutcomeState, Request, who
from replicator_state.storage.folder import Folder, create_once
from replicator_state.storage.local_folder import LocalFolder
from replicator_state.storage.store_retry import StoreRetry

_NAME = re.compile(r"([0-9A-HJKMNP-TV-Z]{26})\.(request|begun|outcome)")
T = TypeVar("T")
_WITHDRAWN = "withdrawn"
_LOOK_SECONDS, _LOOK_SECONDS_REMOTE = 1.0, 10.0
_log = logging.getLogger("replicator.state")


@dataclass(frozen=True, slots=True)
class Entry:
    """A request of the history.

    Attributes:
        request_id: Its ULID.
        request: None when its file cannot be read.
        outcome: None as long as it has none, or when that cannot be read.
    """

    request_id: str
    request: Request | None
    outcome: Outcome | None


class RequestFolder:
    """Requests in the order of their making. Safe from any thread and among processes; files are never changed.

    A request is carried out at least once: who holds the lease marks it as begun, does it, and writes the outcome. After a crash
    between, the next holder does it again, so doing it twice must change nothing more. A request that no run has begun can
    be withdrawn; where the file system creates exclusively, either the withdrawal or the beginning wins.

    Args:
        folder: Beside the generations of the replicator.
        retry: How long faults of the store are waited out.
    """

    def __init__(self, folder: Folder, retry: StoreRetry) -> None:
        self._folder = folder
        self._retry = retry

    @property
    def place(self) -> str:
        """The folder for messages, without credentials."""
        return self._folder.place

    @property
    def exclusive(self) -> bool:
        """Whether a withdrawal is certain; elsewhere a request is never withdrawn."""
        return self._folder.exclusive

    @property
    def look_seconds(self) -> float:
        """How often to look for new requests: object stores charge for each listing."""
        return _LOOK_SECONDS if isinstance(self._folder, LocalFolder) else _LOOK_SECONDS_REMOTE

    def submit(self, command: str, arguments: Mapping[str, Any], *, by: str = "") -> Request:
        """Ask for `command`; durable when this returns.

        Args:
            command: What is asked for.
            arguments: In JSON values, as the command defines them.
            by: Who asks; this process' user when left out.

        Raises:
            ReplicatorError: As the store fails (RPL-7103 to RPL-7105).
        """
        ulid = ULID()
        request = Request(str(ulid), command, arguments, by or who(), ulid.datetime)
        self._create(request)
        return request

    def record(self, command: str, arguments: Mapping[str, Any], *lines: str, by: str = "") -> Request:
        """Store a request that asks for nothing to be carried out, with its outcome; durable when this returns.

        The outcome is stored before the request, so that no run finds the request without it.

        Args:
            command: What was asked for.
            arguments: As of `submit`.
            lines: What was done.
            by: As of `submit`.

        Raises:
            ReplicatorError: As `submit`.
        """
        ulid = ULID()
        request = Request(str(ulid), command, arguments, by or who(), ulid.datetime)
        self.finish(str(ulid), Outcome(OutcomeState.DONE, request.at, request.by, lines))
        self._create(request)
        return request

    def waiting(self) -> list[str]:
        """The requests without an outcome, the oldest first."""
        names = self._names()
        return sorted(found for found, kinds in names.items() if "request" in kinds and "outcome" not in kinds)

    def read(self, request_id: str) -> Request | None:
        """The request; None when it is gone.

        Raises:
            ValueError: When the file is damaged.
        """
        content = self._read(f"{request_id}.request")
        return None if content is None else Request.from_bytes(content)

    def begin(self, request_id: str, by: str) -> bool:
        """Mark it as begun by `by`; False when it was withdrawn. A holder begins again what one before it has begun."""
        return self._decide(request_id, by) != _WITHDRAWN

    def withdraw(self, request_id: str) -> bool:
        """Withdraw what no run has begun; whether it is withdrawn now."""
        is_there = self._read(f"{request_id}.request") is not None
        if not (self.exclusive and is_there) or self._decide(request_id, _WITHDRAWN) != _WITHDRAWN:
            return False
        self.finish(request_id, Outcome(OutcomeState.WITHDRAWN, datetime.now(UTC), who()))
        return True

    def finish(self, request_id: str, outcome: Outcome) -> None:
        """Store its outcome; one that is there stays."""

        def attempt() -> None:
            """One try."""
            try:
                self._folder.create(f"{request_id}.outcome", outcome.to_bytes())
            except FileExistsError:
                return

        self._run("store the outcome of a request", attempt)

    def outcome(self, request_id: str) -> Outcome | None:
        """Its outcome; None as long as there is none."""
        content = self._read(f"{request_id}.outcome")
        return None if content is None else Outcome.from_bytes(content)

    def is_begun(self, request_id: str) -> bool:
        """Whether a run has begun it."""
        return self._read(f"{request_id}.begun") not in {None, _WITHDRAWN.encode()}

    def history(self, limit: int | None = None, *, before: str | None = None) -> list[Entry]:
        """The requests that are kept, the newest first, at most `limit`; with `before` those that were made before that one."""
        names = self._names()
        found = (one for one, kinds in names.items() if "request" in kinds and (before is None or one < before))
        return [self._entry(one) for one in sorted(found, reverse=True)[:limit]]

    def entry(self, request_id: str) -> Entry | None:
        """One request of the history; None when there is none."""
        return self._entry(request_id) if self._read(f"{request_id}.request") is not None else None

    def prune(self, age: timedelta) -> None:
        """Delete requests that ended longer ago than `age`; what cannot be deleted stays for the next time."""
        oldest = datetime.now(UTC) - age
        self._folder.tidy()
        for request_id, kinds in self._names().items():
            is_open = "request" in kinds and "outcome" not in kinds
            if is_open or ULID.from_str(request_id).datetime >= oldest or self._ended_after(request_id, oldest):
                continue
            try:
                for kind in ("request", "begun", "outcome"):  # without its outcome it would be carried out again
                    self._folder.remove(f"{request_id}.{kind}")
            except Exception as error:  # noqa: BLE001  # object store clients raise types of their own
                _log.warning("could not delete an old request: %s", type(error).__name__, extra={"code": "RPL-7114"})

    def _create(self, request: Request) -> None:
        name, content = f"{request.request_id}.request", request.to_bytes()
        self._run("store the request", lambda: create_once(self._folder, name, content))

    def _ended_after(self, request_id: str, moment: datetime) -> bool:
        """Whether its outcome says so; the clock of who asked may be wrong."""
        try:
            outcome = self.outcome(request_id)
        except ValueError:
            return False
        return outcome is not None and outcome.at > moment

    def _entry(self, request_id: str) -> Entry:
        try:
            request = self.read(request_id)
        except ValueError:
            request = None
        try:
            return Entry(request_id, request, self.outcome(request_id))
        except ValueError:
            return Entry(request_id, request, None)

    def _decide(self, request_id: str, by: str) -> str:
        """Who has begun it: `by`, unless another one has before."""

        def attempt() -> None:
            """One try."""
            try:
                self._folder.create(f"{request_id}.begun", by.encode())
            except FileExistsError:
                return

        self._run("begin a request", attempt)
        content = self._read(f"{request_id}.begun")
        return by if content is None else content.decode(errors="replace")

    def _names(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for name in self._run("list the requests", self._folder.names):
            if match := _NAME.fullmatch(name):
                found.setdefault(match[1], set()).add(match[2])
        return found

    def _read(self, name: str) -> bytes | None:
        try:
            return self._run("read a request", lambda: self._folder.read(name))
        except FileNotFoundError:
            return None

    def _run(self, what: str, action: Callable[[], T]) -> T:
        return self._retry.run(what, action, wait_for_user=False)
