"""Where a replicator keeps everything: `<base>/<namespace>/<name>/<generation>/`, and beside them requests to it in `requests/`, log lines in `logs/`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from replicator_sdk.errors import ConfigError, NeedsUserError
from replicator_state.deletion import Deletion
from replicator_state.lane_folder import LaneFolder
from replicator_state.lease.clock import SYSTEM_CLOCK, Clock
from replicator_state.lease.epoch_claim import EpochClaim
from replicator_state.lease.lease import Lease
from replicator_state.lease.lease_record import LeaseRecord
from replicator_state.log_folder import LogFolder
from replicator_state.offsets.offset_store import OffsetStore
from replicator_state.offsets.retention import Retention
from replicator_state.opened_folder import open_folder
from replicator_state.requests.request_folder import RequestFolder
from replicator_state.state_store import StateStore
from replicator_state.storage.folder import Folder
from replicator_state.storage.local_folder import LocalFolder
from replicator_state.storage.store_retry import StoreRetry

_IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_LIST_SECONDS = 5.0
_REQUESTS, _LOGS = "requests", "logs"
_LOG_SECONDS = 2.0
_LANES, _DEAD_LETTERS = "lanes", "dead-letters"
_ROWS = frozenset({_LANES, _DEAD_LETTERS})
_GENERATION = re.compile(r"[1-9]\d{0,8}")


class ReplicatorDirectory:
    """Gives the offsets, state and lease of one replicator. Does no I/O before a method is called.

    Args:
        base_path: A local path, or any fsspec URL (`s3://bucket/prefix`, `memory://x`, …).
        namespace: Checked, since it becomes part of a path.
        name: The replicator's name; checked too.
        generation: Which deployment; the newest existing one, or 1, when left out.
        retry_seconds: How long faults of the store are waited out.
        retention: Which older offsets stay.
        storage_options: Passed to fsspec (credentials belong here, not into the URL).

    Raises:
        ConfigError: RPL-7101 when namespace or name is no identifier, RPL-7102 when the URL cannot be used.
    """

    def __init__(
        self,
        base_path: str,
        namespace: str,
        name: str,
        *,
        generation: int | None = None,
        retry_seconds: float = 60.0,
        retention: Retention | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.base_path = base_path
        self.namespace = check_identifier(namespace, "namespace")
        self.name = check_identifier(name, "name")
        self._options = dict(storage_options or {})
        self._retention = retention or Retention()
        self._retry_seconds = retry_seconds
        self._home = self._open(self.namespace, self.name)
        self._generation = generation
        self._folder: Folder | None = None

    @property
    def generation(self) -> int:
        """The generation in use, fixed at the first call."""
        if self._generation is None:
            self._generation = max(self.generations(), default=1)
        return self._generation

    @property
    def place(self) -> str:
        """The generation's folder for messages, without credentials."""
        return self._generation_folder().place

    @property
    def home(self) -> str:
        """The folder of all generations for messages, absolute and without credentials."""
        return self._home.place

    @property
    def local_home(self) -> Path | None:
        """The folder of all generations on a local disk; None on another file system."""
        return self._home.path if isinstance(self._home, LocalFolder) else None

    def generations(self) -> list[int]:
        """Generations that exist, ascending.

        Raises:
            ReplicatorError: RPL-7104 or RPL-7105 when the store cannot be listed.
        """
        retry = StoreRetry(self._retry_seconds, self._home.place)
        names = retry.run("list the generations", self._home.folders, wait_for_user=False)
        return sorted(int(name) for name in names if _GENERATION.fullmatch(name))

    def check_user(self) -> None:
        """Refuse root where the state on a local disk is another user's, who could not read the files that root writes.

        Raises:
            NeedsUserError: RPL-7106, which names the user.
        """
        if not isinstance(self._home, LocalFolder) or os.name != "posix" or os.geteuid() != 0:
            return
        try:
            owner = self._home.path.owner()
        except (FileNotFoundError, NotADirectoryError, KeyError):  # what reads it says so
            return
        if owner != "root":
            raise NeedsUserError(
                f"the state at {self.home} belongs to {owner}, who could not read what root writes there",
                code="RPL-7106",
                hint=f"give the command as that user: sudo -u {owner} …",
            )

    @property
    def is_newest(self) -> bool:
        """Whether no later generation exists."""
        return max(self.generations(), default=self.generation) <= self.generation

    def newest(self) -> ReplicatorDirectory:
        """The same replicator's state in the generation that is the newest one now; the first, where there is none.

        Raises:
            ReplicatorError: As `generations`.
        """
        return self.of_generation(max(self.generations(), default=1))

    def of_generation(self, generation: int) -> ReplicatorDirectory:
        """The same replicator's state in another generation, to read."""
        return ReplicatorDirectory(
            self.base_path,
            self.namespace,
            self.name,
            generation=generation,
            retry_seconds=self._retry_seconds,
            retention=self._retention,
            storage_options=self._options,
        )

    def begin_generation(self, lease: Lease, *, state_was_lost: bool = False) -> int:
        """Begin another generation, which all later runs use; this one's state stays. Durable when this returns.

        Targets know writers by their epochs, so the new ones are above `lease`'s. After a lost state no file says which
        epochs and generations a target has seen: both then begin at the time, which is above all that were counted up to now.

        Args:
            lease: Of this generation, which must be the newest; held meanwhile, so that no run goes on.
            state_was_lost: Whether this generation may know less than the target. The numbers then leave one out, which says so later.

        Raises:
            FencedError: RPL-7131 when a newer run took over.
            ReplicatorError: As the store fails (RPL-7103 to RPL-7105).
        """
        if not state_was_lost:
            number = self.generation + 1
            lease.pass_on(self._numbered(number))
            return number
        now = SYSTEM_CLOCK.wall().timestamp()
        number = max(self.generation + 2, int(now / 60))
        lease.pass_on(self._numbered(number), int(now * 1000))
        return number

    def former(self) -> tuple[list[ReplicatorDirectory], bool]:
        """The generations before this one, newest first, back to where the state was lost, and whether it was: then the oldest one
        was begun above a generation that knew less than the target.
        """
        numbers = [number for number in reversed(self.generations()) if number < self.generation]
        found: list[ReplicatorDirectory] = []
        last = self.generation
        for number in numbers:
            if number != last - 1:
                return found, True
            found.append(self.of_generation(number))
            last = number
        return found, False

    def delete_former_rows(self, lease: Lease) -> None:
        """Delete what former generations kept of tables' rows, in lanes and as dead letters; no run of this generation reads it.

        Args:
            lease: Of this generation, which is the newest.

        Raises:
            FencedError: RPL-7131 when a newer run took over.
            ReplicatorError: As the store fails (RPL-7103 to RPL-7105).
        """
        retry = StoreRetry(self._retry_seconds, self._home.place)
        for number in self.generations():
            if number < self.generation:
                lease.check()
                there = retry.run("look for lanes of former generations", self._numbered(number).folders)
                for name in _ROWS & set(there):
                    retry.run("delete what a former generation kept", self._open(*self._parts(number), name).clear)

    def deletion(self) -> Deletion:
        """What deletes all of this replicator's state, and says whether that goes on."""
        return Deletion(self._home, StoreRetry(self._retry_seconds, self._home.place))

    def delete_values(self, lease: Lease) -> None:
        """See `Deletion.delete_values`; `lease` is this generation's, which must be the newest."""
        others = [number for number in self.generations() if number != self.generation]
        self.deletion().delete_values(lease, self._generation_folder(), list(map(self._numbered, others)))

    def finish_deletion(self, lease: Lease) -> None:
        """See `Deletion.finish`."""
        beside = [self._open(self.namespace, self.name, part) for part in (_REQUESTS, _LOGS)]
        self.deletion().finish(lease, [*beside, self._generation_folder()])

    def offsets(self, lease: Lease | None = None) -> OffsetStore:
        """The saved offsets; give the lease to save, none to read."""
        folder, retry = self._generation_folder(), self._retry()
        if lease is None:
            return OffsetStore(folder, retry, retention=self._retention)
        return OffsetStore(folder, retry, epoch=lease.epoch, fence=lease.check, retention=self._retention)

    def states(self, lease: Lease | None = None) -> StateStore:
        """State values and status; give the lease to write, none to read."""
        folder, retry = self._generation_folder(), self._retry()
        if lease is None:
            return StateStore(folder, retry)
        return StateStore(folder, retry, epoch=lease.epoch, fence=lease.check)

    def lanes(self, lease: Lease) -> LaneFolder:
        """The generation's lanes."""
        folder = self._open(*self._parts(self.generation), _LANES)
        return LaneFolder(folder, StoreRetry(self._retry_seconds, folder.place), lease.check)

    def dead_letters(self, lease: Lease | None = None) -> LaneFolder:
        """The generation's rows that were put aside; give the lease to write, none to read."""
        folder = self._open(*self._parts(self.generation), _DEAD_LETTERS)
        return LaneFolder(
            folder, StoreRetry(self._retry_seconds, folder.place), _unfenced if lease is None else lease.check
        )

    def archive_stage(self, lease: Lease) -> LaneFolder:
        """The generation's changes that are to be archived."""
        folder = self._open(*self._parts(self.generation), "archive")
        return LaneFolder(folder, StoreRetry(self._retry_seconds, folder.place), lease.check)

    def requests(self) -> RequestFolder:
        """The requests of operators, which outlive generations."""
        folder = self._open(self.namespace, self.name, _REQUESTS)
        return RequestFolder(folder, StoreRetry(self._retry_seconds, folder.place))

    def logs(self, lease: Lease | None = None) -> LogFolder:
        """The log lines of all runs, which outlive generations; give the lease to write, none to read."""
        folder = self._open(self.namespace, self.name, _LOGS)
        return LogFolder(folder, StoreRetry(_LOG_SECONDS, folder.place), _unfenced if lease is None else lease.check)

    def acquire(
        self, run_id: str, *, ttl_seconds: float = 30.0, wait_seconds: float = 0.0, clock: Clock = SYSTEM_CLOCK
    ) -> Lease:
        """Become the only writer; see `Lease.acquire`."""
        return Lease.acquire(
            self._generation_folder(),
            self._retry(),
            run_id,
            ttl_seconds=ttl_seconds,
            wait_seconds=wait_seconds,
            clock=clock,
        )

    def check_free(self) -> None:
        """See `EpochClaim.check_free`."""
        EpochClaim(self._generation_folder(), self._retry(), SYSTEM_CLOCK).check_free()

    def newest_lease(self) -> LeaseRecord | None:
        """What the newest run, or command, wrote last into its lease; None when there was none. Reads only."""
        return EpochClaim(self._generation_folder(), self._retry(), SYSTEM_CLOCK).newest()

    def _generation_folder(self) -> Folder:
        if self._folder is None:
            self._folder = self._numbered(self.generation)
        return self._folder

    def _numbered(self, generation: int) -> Folder:
        return self._open(*self._parts(generation))

    def _parts(self, generation: int) -> tuple[str, ...]:
        return self.namespace, self.name, str(generation)

    def _retry(self) -> StoreRetry:
        return StoreRetry(self._retry_seconds, self._generation_folder().place)

    def _open(self, *parts: str) -> Folder:
        return open_folder(self.base_path, parts, self._options)


def replicators(base_path: str, *, storage_options: Mapping[str, Any] | None = None) -> list[tuple[str, str]]:
    """Namespace and name of each replicator below `base_path`, in order; folders that are no replicator's are left out.

    Args:
        base_path: As for `ReplicatorDirectory`.
        storage_options: Likewise.

    Raises:
        ConfigError: RPL-7102 when the URL cannot be used.
        ReplicatorError: RPL-7104 or RPL-7105 when the store cannot be listed.
    """

    def folders(*parts: str) -> list[str]:
        """The folders below `parts` that may be a namespace or a name, in order."""
        folder = open_folder(base_path, parts, storage_options or {})
        retry = StoreRetry(_LIST_SECONDS, folder.place)
        return sorted(
            filter(_IDENTIFIER.fullmatch, retry.run("list the replicators", folder.folders, wait_for_user=False))
        )

    pairs = [(namespace, name) for namespace in folders() for name in folders(namespace)]
    return [pair for pair in pairs if any(map(_GENERATION.fullmatch, folders(*pair)))]


def _unfenced() -> None:
    """For those that only read."""


def check_identifier(text: str, what: str) -> str:
    """`text`, when it may become one part of a path.

    Raises:
        ConfigError: RPL-7101 when it is not 1 to 63 letters, digits, `_`, `.`, `-`, beginning with a letter or digit.
    """
    if _IDENTIFIER.fullmatch(text):
        return text
    raise ConfigError(
        f"the {what} {text[:80]!r} is not allowed",
        code="RPL-7101",
        path=what,
        hint="use 1 to 63 letters, digits, '_', '.' or '-', beginning with a letter or digit",
    )
