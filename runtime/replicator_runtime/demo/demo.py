"""The demonstration from beginning to end."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replicator_runtime.config import load_pipeline
from replicator_runtime.demo.comparison import TableComparison, compare, require_reader
from replicator_runtime.demo.shop import make_shop
from replicator_runtime.demo.workload import Workload
from replicator_runtime.execution import Execution
from replicator_sdk.errors import DataError, NeedsUserError, RetryableError
from replicator_state import ReplicatorDirectory

if TYPE_CHECKING:
    from replicator_runtime.config import Pipeline
    from replicator_runtime.engine.run_state.progress import RunView
    from replicator_sdk.offset import Offset

STRANGE_FOLDER = "RPL-1301"
NOT_IN_TIME = "RPL-1303"
TABLES_DIFFER = "RPL-1304"
MARKER = ".replicator-demo"
LIVE_SECONDS = 12.0
LIMIT_SECONDS = 240.0
TICK_SECONDS = 0.1
_FILES = (
    "shop.db",
    "shop.db-wal",
    "shop.db-shm",
    "pipeline.json",
    "service.db",
    "service.db-wal",
    "service.db-shm",
    "service.log",
)

Say = Callable[[str], None]
Watch = Callable[["RunView"], None]


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What the demonstration showed.

    Attributes:
        pipeline: The pipeline JSON it wrote.
        tables: Shop and lake compared.
        snapshot_rows: Rows copied by the snapshot.
        snapshot_seconds: From the first table's begin to the last table's end.
        changes: Rows the shop changed while it was replicated.
        change_seconds: How long it did.
        longest_lag_seconds: The longest lag seen meanwhile.
        last_change_seconds: From the shop's last commit until that was durable in the lake.
    """

    pipeline: Path
    tables: tuple[TableComparison, ...]
    snapshot_rows: int
    snapshot_seconds: float
    changes: int
    change_seconds: float
    longest_lag_seconds: float
    last_change_seconds: float

    @property
    def snapshot_rows_per_second(self) -> float:
        """Speed of the snapshot, Spark's warming up included."""
        return self.snapshot_rows / max(0.001, self.snapshot_seconds)

    def raise_for_difference(self) -> None:
        """Do nothing when every table is equal.

        Raises:
            DataError: RPL-1304 when a table differs.
        """
        if wrong := [t.table for t in self.tables if not t.equal]:
            raise DataError(
                f"source and target differ in {', '.join(wrong)}",
                code=TABLES_DIFFER,
                hint="this is a bug: report it with the folder of the demo",
            )

    def to_json(self) -> dict[str, Any]:
        """The JSON form printed by `replicator demo --json`."""
        return {
            "pipeline": str(self.pipeline),
            "tables": [t.to_json() for t in self.tables],
            "equal": all(t.equal for t in self.tables),
            "snapshotRows": self.snapshot_rows,
            "snapshotSeconds": round(self.snapshot_seconds, 2),
            "snapshotRowsPerSecond": round(self.snapshot_rows_per_second),
            "changes": self.changes,
            "changesPerSecond": round(self.changes / max(0.001, self.change_seconds)),
            "longestLagSeconds": round(self.longest_lag_seconds, 2),
            "lastChangeSeconds": round(self.last_change_seconds, 2),
        }


def run_demo(
    folder: Path, *, say: Say = lambda _: None, watch: Watch = lambda _: None, live_seconds: float = LIVE_SECONDS
) -> DemoResult:
    """Make the shop in `folder`, replicate it while it changes, and compare.

    Args:
        folder: Made when it is not there; what an earlier demo left in it is replaced.
        say: Takes a sentence for the user at each step.
        watch: Takes the progress, several times a second.
        live_seconds: How long the shop changes.

    Raises:
        NeedsUserError: When the folder holds other things, or the independent reader is not installed.
        ReplicatorError: What ended the run.
    """
    require_reader()
    folder = folder.absolute()
    _clear(folder)
    say(f"making a shop: {folder / 'shop.db'}")
    rows = make_shop(folder / "shop.db")
    file = _write_pipeline(folder)
    say(f"replicating it by {file}:\n{file.read_text('utf-8').rstrip()}")
    show = _Show(load_pipeline(file), folder / "shop.db", rows, watch, live_seconds)
    try:
        show.play(say)
    finally:
        show.close()
    say("comparing source and target, read by sqlite3 and by deltalake")
    return show.result(file, compare(folder / "shop.db", folder / "lake"))


class _Show:
    """The run, the shop at work beside it, and what was measured."""

    def __init__(self, pipeline: Pipeline, shop: Path, rows: int, watch: Watch, live_seconds: float) -> None:
        self._pipeline = pipeline
        self._rows = rows
        self._watch = watch
        self._execution = Execution(pipeline)
        self._workload = Workload(shop, live_seconds)
        self._began = self._copied_at = 0.0
        self._opened_at = self._caught_up_at = 0.0
        self._longest_lag = 0.0

    def play(self, say: Say) -> None:
        self._execution.start()
        self._wait(self._following, "the snapshot")
        say(f"every table is copied; the shop now works for {self._workload.seconds:.0f} seconds")
        self._opened_at = time.monotonic()
        self._workload.start()
        self._wait(lambda _: not self._workload.open, "the shop")
        self._workload.close()
        goal = self._pipeline.source.latest_offset()
        self._wait(lambda _: self._durable(goal), "the last change")
        self._caught_up_at = time.monotonic()

    def close(self) -> None:
        """End the shop's work and the run, and show what ended it, if anything did."""
        self._execution.stop()
        if self._workload.open:
            self._workload.close()
        self._execution.result()

    def result(self, file: Path, tables: list[TableComparison]) -> DemoResult:
        return DemoResult(
            pipeline=file,
            tables=tuple(tables),
            snapshot_rows=self._rows,
            snapshot_seconds=self._copied_at - self._began,
            changes=self._workload.changes,
            change_seconds=self._workload.ended_at - self._opened_at,
            longest_lag_seconds=self._longest_lag,
            last_change_seconds=max(0.0, self._caught_up_at - self._workload.ended_at),
        )

    def _wait(self, done: Callable[[RunView], bool], what: str) -> None:
        """Watch until `done`, the run's end, or the time limit."""
        until = time.monotonic() + LIMIT_SECONDS
        while not self._execution.wait(TICK_SECONDS):
            view = self._execution.progress.snapshot()
            self._watch(view)
            if self._opened_at and view.lag_seconds is not None:
                self._longest_lag = max(self._longest_lag, view.lag_seconds)
            if done(view):
                return
            self._refuse_failing(view)
            if time.monotonic() > until:
                raise RetryableError(
                    f"{what} took longer than {LIMIT_SECONDS:.0f} seconds",
                    code=NOT_IN_TIME,
                    hint="run the demo on a machine with less to do",
                )
        self._execution.result()
        raise AssertionError("an endless run ended by itself")

    def _refuse_failing(self, view: RunView) -> None:
        for table in view.tables:
            if table.state.value == "FAILING":
                raise DataError(
                    f"a table of the demo is failing: {table.error}",
                    code=TABLES_DIFFER,
                    hint="this is a bug: report it with the folder of the demo",
                    table=str(table.table),
                )

    def _following(self, view: RunView) -> bool:
        """Whether every table is copied and the log is followed."""
        states = [table.state.value for table in view.tables]
        if "SNAPSHOTTING" in states:
            self._began = self._began or time.monotonic()
            self._copied_at = time.monotonic()
        return bool(states) and set(states) == {"REPLICATING"} and view.phase == "streaming"

    def _durable(self, goal: Offset) -> bool:
        config = self._pipeline.config
        directory = ReplicatorDirectory(config.offset_base_path, config.namespace, config.name)
        saved = directory.offsets().latest()
        return saved is not None and not self._pipeline.source.offset_type.from_fields(saved.fields) < goal


def _clear(folder: Path) -> None:
    """Remove what an earlier demo left; refuse a folder with anything else in it."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()) and not (folder / MARKER).exists():
        raise NeedsUserError(
            f"{folder} holds files that no demo created", code=STRANGE_FOLDER, hint="give another --directory"
        )
    (folder / MARKER).touch()
    for file in _FILES:
        (folder / file).unlink(missing_ok=True)
    for name in ("lake", "state", "service-work"):
        shutil.rmtree(folder / name, ignore_errors=True)


def _write_pipeline(folder: Path) -> Path:
    pipeline = {
        "name": "shop",
        "offsetBasePath": str(folder / "state"),
        "stages": [
            {
                "name": "shop",
                "plugin": {"name": "sqlite", "type": "cdcSource", "properties": {"path": str(folder / "shop.db")}},
            },
            {
                "name": "lake",
                "plugin": {"name": "delta", "type": "cdcTarget", "properties": {"path": str(folder / "lake")}},
            },
        ],
        "connections": [{"from": "shop", "to": "lake"}],
        "tables": [{"table": "*"}],
        "retries": {"maxDurationSeconds": 30, "delaySeconds": 2},
    }
    file = folder / "pipeline.json"
    file.write_text(json.dumps(pipeline, indent=2, ensure_ascii=False) + "\n", "utf-8")
    return file
