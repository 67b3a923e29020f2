"""Reads the state of one pipeline when someone looks, and only what may have changed."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from replicator_runtime.engine.control.pause import stored_pause
from replicator_runtime.engine.control.table_names import quoted_name
from replicator_runtime.engine.letters.letter_file import row_counts
from replicator_runtime.engine.schedule.schedule import stored_schedule
from replicator_runtime.engine.schedule.verified_tables import stored
from replicator_runtime.engine.views.phases import ENDED
from replicator_runtime.observability.metrics import SNAPSHOT_ROWS
from replicator_runtime.observed.comparisons import verification_json
from replicator_runtime.observed.liveness import Liveness, liveness, waits_for_first_run
from replicator_runtime.observed.objectives import slo_json, stored_figures
from replicator_runtime.observed.status import observed, pause_json
from replicator_sdk import TableId
from replicator_sdk.errors import NeedsUserError, ReplicatorError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from replicator_state import ReplicatorDirectory, StateStore

CANNOT_READ: Final = "RPL-1561"
LOCAL_SECONDS: Final = 1.0
REMOTE_SECONDS: Final = 10.0
"""Object stores charge for each listing."""
_LIVENESS_SECONDS: Final = 5.0
_BESIDE_SECONDS: Final = 15.0
_SURE_NANOSECONDS: Final = 50_000_000
"""A folder may change twice within one tick of the file system's clock: one that has just changed is read once more."""

Signature = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Beside:
    """What the state says beside the status; it changes seldom.

    Attributes:
        paused: Who paused the whole replicator, and since when; None when no one has.
        verification: As `replicator status --json` shows it.
        slo: Likewise.
        aside: Rows that are put aside, by table's id.
    """

    paused: Mapping[str, Any] | None = None
    verification: Mapping[str, Any] | None = None
    slo: Mapping[str, Any] | None = None
    aside: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Seen:
    """What was read last.

    Attributes:
        status: What the newest run wrote last; None when none has, or when it cannot be read.
        phase: Its phase; `reset` for a generation that has not run yet, None when nothing is known.
        tables: How many tables are in which state.
        lives: What is known of its process.
        waiting: The requests without an outcome.
        beside: What is stored beside the status.
        error: Why it cannot be read; None when it can.
    """

    status: Mapping[str, Any] | None = None
    phase: str | None = None
    tables: Mapping[str, int] = field(default_factory=dict)
    lives: Liveness = field(default_factory=Liveness)
    waiting: tuple[str, ...] = ()
    beside: Beside = field(default_factory=Beside)
    error: ReplicatorError | None = None

    @property
    def rows(self) -> Mapping[str, Mapping[str, Any]]:
        """Its tables as they are listed, by id: the name by which a command finds exactly this table. Made at each call."""
        return {} if self.status is None else _rows(self.status, self.beside)

    @property
    def listed(self) -> Sequence[Mapping[str, Any]]:
        """Its tables as the status has them."""
        return () if self.status is None else self.status.get("tables", ())


class StateReader:
    """Safe from any thread; who comes while another one reads waits for what that finds.

    On a local disk the state is read when its files have changed, at most once a second; elsewhere every ten seconds.

    Args:
        directory: Where the state is.
    """

    def __init__(self, directory: ReplicatorDirectory) -> None:
        self.directory = directory
        self._lock = threading.Lock()
        self._seen = Seen()
        self._signature: Signature | None = None
        self._looked = self._lived = self._read_beside = -REMOTE_SECONDS * 10
        self._rows: tuple[Seen, Mapping[str, Mapping[str, Any]]] | None = None
        self._is_forgotten = self._is_status_forgotten = False
        self._status_lock = threading.Lock()
        self._status: dict[str, Any] | None = None
        self._status_read = 0.0
        self._every = LOCAL_SECONDS if directory.local_home is not None else REMOTE_SECONDS

    @property
    def last_seen(self) -> Seen:
        """What was seen last; waits for nothing."""
        return self._seen

    @property
    def is_due(self) -> bool:
        """Whether `look` would read; waits for nothing."""
        return self._is_forgotten or time.monotonic() - self._looked >= self._every

    def look(self) -> Seen:
        """What is known now. Raises nothing: what cannot be read is an error of what is seen."""
        with self._lock:
            now = time.monotonic()
            if not self.is_due:
                return self._seen
            if self._is_forgotten:
                self._is_forgotten, self._signature = False, None
            self._looked = now
            try:
                self._seen = self._look(now)
            except ReplicatorError as error:
                self._signature, self._seen = None, Seen(error=error)
            except Exception as error:  # noqa: BLE001 - of one pipeline; the others are shown
                self._signature, self._seen = None, Seen(error=unreadable(error))
            return self._seen

    def rows(self, seen: Seen) -> Mapping[str, Mapping[str, Any]]:
        """The tables as they are listed, by id; kept until something else is seen."""
        known = self._rows
        if known is None or known[0] is not seen:
            known = self._rows = (seen, seen.rows)
        return known[1]

    def status(self) -> dict[str, Any]:
        """As `replicator status --json` shows it; read at most once a second.

        Raises:
            ReplicatorError: As `observed.status.observed`.
        """
        with self._status_lock:
            now = time.monotonic()
            if self._status is None or self._is_status_forgotten or now - self._status_read >= self._every:
                self._is_status_forgotten = False
                self._status = observed(self.directory.newest()).data
                self._status_read = now
            return self._status

    def forget(self) -> None:
        """Read it again at the next look, as after a change of our own; waits for nothing."""
        self._is_forgotten = self._is_status_forgotten = True

    def _look(self, now: float) -> Seen:
        signature = _signature(self.directory)
        is_same = signature is not None and signature == self._signature
        if is_same and not self._is_due(now):
            return self._seen
        if not is_same:
            self.directory = self.directory.newest()
        requests_changed = signature is None or self._signature is None or signature[-1] != self._signature[-1]
        self._signature, self._lived = signature, now
        beside = self._seen.beside
        if requests_changed or now - self._read_beside >= _BESIDE_SECONDS:
            beside, self._read_beside = _beside(self.directory), now
        return _read(self.directory, beside)

    def _is_due(self, now: float) -> bool:
        """Whether time alone may have changed something: a process that ended without a word writes nothing."""
        works = self._seen.status is not None and self._seen.phase not in ENDED
        return works and not self._seen.lives.process_ended and now - self._lived >= _LIVENESS_SECONDS


def _read(directory: ReplicatorDirectory, beside: Beside) -> Seen:
    status = directory.states().read_status()
    waiting = tuple(directory.requests().waiting())
    if status is None:
        runs = bool(directory.generations())
        phase = "reset" if runs and waits_for_first_run(directory) else None
        return Seen(phase=phase, waiting=waiting, beside=beside)
    tables = Counter(str(table.get("state")) for table in status.get("tables", ()))
    return Seen(
        status,
        status.get("phase"),
        dict(sorted(tables.items())),
        liveness(directory, status),
        waiting,
        beside,
    )


def _beside(directory: ReplicatorDirectory) -> Beside:
    scoped: StateStore = directory.states().scoped("runtime")
    return Beside(
        pause_json(stored_pause(scoped)),
        verification_json(stored_schedule(scoped), stored(scoped)),
        slo_json(stored_figures(scoped)),
        {quoted_name(table): rows for table, rows in row_counts(directory.dead_letters()).items() if rows},
    )


def _rows(status: Mapping[str, Any], beside: Beside) -> dict[str, Mapping[str, Any]]:
    verified = {row_id(one): one for one in (beside.verification or {}).get("tables", ())}
    counted = (status.get("metrics") or {}).get("tables") or {}
    found: dict[str, Mapping[str, Any]] = {}
    for table in status.get("tables", ()):
        known = TableId.from_json(table)
        key = quoted_name(known)
        one = verified.get(key, {})
        found[key] = {
            "id": key,
            "name": str(known),
            **table,
            **_changes(counted.get(str(known)) or {}),
            "rowsPutAside": beside.aside.get(key, 0),
            "verifiedAt": one.get("verifiedAt"),
            "verifyResult": one.get("result"),
        }
    return found


def _changes(counted: Mapping[str, Any]) -> dict[str, int]:
    """How many rows copies have written and, by operation, how many changes the target has got; a stage's name is before each counter's."""
    by_name = {".".join(name.split(".")[-2:]): count for name, count in (counted.get("counters") or {}).items()}
    kinds = {"copied": SNAPSHOT_ROWS, "inserts": "dml.insert", "updates": "dml.update", "deletes": "dml.delete"}
    found = {key: by_name[name] for key, name in kinds.items() if name in by_name}
    if "inserts" in found:  # the counter has copied rows as well
        found["inserts"] = max(0, found["inserts"] - found.get("copied", 0))
    return found


def row_id(table: Mapping[str, Any]) -> str:
    """The id of a table's row, from its JSON."""
    return quoted_name(TableId.from_json(dict(table)))


def _signature(directory: ReplicatorDirectory) -> Signature | None:
    """What changes with the files: of the folder of generations, the status, and the folder of requests last; None elsewhere than on a local disk."""
    home = directory.local_home
    if home is None:
        return None
    folders = (home, home / str(directory.generation) / "state.json", home / "requests")
    return tuple(map(_stamp, folders))


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0, 0
    is_sure = time.time_ns() - found.st_mtime_ns > _SURE_NANOSECONDS
    return found.st_mtime_ns, found.st_ino, found.st_size if is_sure else -time.monotonic_ns()


def unreadable(error: Exception) -> ReplicatorError:
    """The error that is shown of a pipeline whose state cannot be read."""
    if isinstance(error, ReplicatorError):
        return error
    return NeedsUserError(
        f"the state cannot be read: {type(error).__name__}",
        code=CANNOT_READ,
        hint="`replicator status NAME --debug` shows where; the run itself does not need these files",
    )
