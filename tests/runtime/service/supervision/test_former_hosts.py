"""What follows for a pipeline whose process was started on a host that this service cannot see."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from replicator_runtime.service.store.tables import Instance
from replicator_runtime.service.supervision.former.runs import BEGINS_SECONDS, Former, FormerRuns
from replicator_runtime.service.supervision.launcher import Seen
from replicator_runtime.service.supervision.local import LocalLauncher
from replicator_runtime.service.supervision.states import Newest, State, Wanted, state_of
from replicator_sdk.errors import NeedsUserError, ReplicatorError
from replicator_state import ReplicatorDirectory
from replicator_state.lease.lease_holder import LeaseHolder
from replicator_state.lease.lease_record import LeaseRecord
from tests.runtime.service.supervision.supervised import NAMESPACE, Pipelines
from tests.waits import until

OLD = "old.example"
STARTED = datetime(2026, 1, 1, tzinfo=UTC)
INSTANCE = "0" * 26


def lease(after_start: float, *, host: str = OLD, ttl: float = 30.0) -> LeaseRecord:
    """A lease that was taken so long after the process was started, by the clock of its host."""
    taken = STARTED + timedelta(seconds=after_start)
    return LeaseRecord(LeaseHolder("run-1", host, "another boot", "", 7, 1), ttl, taken, taken)


def newest(error: Mapping[str, str] | None = None) -> Newest:
    """Its row."""
    place, note = json.dumps({"host": OLD, "folder": "/gone"}), json.dumps(dict(error)) if error else ""
    return Newest(INSTANCE, "local", place, "run", 1, STARTED, None, None, 0, False, note)


@dataclass
class SharedState:
    """A state whose lease says what a test wants, and a clock that the test moves."""

    record: LeaseRecord | None
    local_home: Path | None = None
    error: ReplicatorError | None = None
    clock: float = 100.0
    reads: int = 0
    runs: FormerRuns = field(init=False)

    def __post_init__(self) -> None:
        directory: Callable[[str, str], ReplicatorDirectory] = lambda *_: self  # type: ignore[assignment]  # noqa: E731
        self.runs = FormerRuns(directory, lambda: self.clock)

    def newest(self) -> SharedState:
        """The newest generation."""
        return self

    def newest_lease(self) -> LeaseRecord | None:
        """What a reading finds."""
        self.reads += 1
        if self.error is not None:
            raise self.error
        return self.record

    def after(self, seconds: float) -> Former:
        """What is known so much later, once it was read again."""
        self.clock += seconds
        reads = self.reads
        self.runs.look(NAMESPACE, "shop", newest(), OLD)
        watch = self.runs._watches[INSTANCE]
        until(lambda: self.reads > reads and not watch.reads, "the lease was read")
        watch.looked, before = self.clock, watch.looked
        found = self.runs.look(NAMESPACE, "shop", newest(), OLD)
        watch.looked = before
        return found


def test_a_process_whose_lease_was_not_renewed_for_its_time_is_gone() -> None:
    state = SharedState(lease(20))
    assert state.after(0) is Former.LOOKED_AT
    assert state.after(25) is Former.LOOKED_AT
    assert state.after(6) is Former.GONE


def test_a_lease_given_back_is_that_of_a_process_that_may_still_be_ending() -> None:
    state = SharedState(replace(lease(20), released=True))
    assert state.after(0) is Former.LOOKED_AT
    assert state.after(31) is Former.GONE


def test_a_process_that_renews_its_lease_is_never_taken_for_gone_whatever_its_clock_says() -> None:
    state = SharedState(lease(20))
    assert state.after(0) is Former.LOOKED_AT
    for hours in (0, -24, 24):
        assert state.record is not None
        state.record = state.record.renewed(STARTED + timedelta(hours=hours))
        assert state.after(29) is Former.RENEWS
    assert state.after(31) is Former.GONE


def test_while_the_state_is_away_the_lease_counts_as_one_that_may_be_renewed() -> None:
    """The run, too, cannot renew it then, and goes on."""
    state = SharedState(lease(20))
    assert state.after(0) is Former.LOOKED_AT
    state.error = NeedsUserError("away", code="RPL-7104", hint="")
    assert state.after(60) is Former.LOOKED_AT
    state.error = None
    assert state.after(60) is Former.LOOKED_AT
    assert state.after(31) is Former.GONE


@pytest.mark.parametrize("record", [None, lease(-60)])
def test_a_process_that_has_not_taken_its_lease_has_two_minutes_for_it(record: LeaseRecord | None) -> None:
    state = SharedState(record)
    assert state.after(0) is Former.LOOKED_AT
    assert state.after(BEGINS_SECONDS - 1) is Former.LOOKED_AT
    assert state.after(6) is Former.GONE


@pytest.mark.parametrize("record", [None, lease(20, host="here.example")])
def test_a_folder_of_this_host_that_never_saw_the_other_one_says_nothing(record: LeaseRecord | None) -> None:
    """It may be another folder than that in which the other host's run keeps its state."""
    state = SharedState(record, local_home=Path("/var/lib/replicator"))
    assert state.after(0) is Former.UNKNOWN
    assert state.after(3600) is Former.UNKNOWN


def add_former(pipelines: Pipelines, record: LeaseRecord | None) -> None:
    """A pipeline whose process was started by a service of another host, which had this lease."""
    pipelines.add()
    if record is not None:
        directory = ReplicatorDirectory(pipelines.settings.base_path, NAMESPACE, "shop")
        taken = directory.acquire("run-1")
        assert directory.local_home is not None
        path = directory.local_home / "1" / f"epoch.{taken.epoch:020d}"
        path.write_bytes(record.to_bytes())
    row = {"instance_id": INSTANCE, "namespace": NAMESPACE, "name": "shop", "launcher": "local"}
    place = json.dumps({"host": OLD, "folder": "/no/such/folder"})
    with pipelines.database.session() as session:
        session.add(Instance(**row, handle=place, command="run", config_version=1, started=STARTED))


def code(pipelines: Pipelines) -> str:
    """The code of the first process' error."""
    error = pipelines.instances()[0].error
    return str(json.loads(error)["code"]) if error else ""


def test_a_pipeline_is_started_here_once_its_former_host_is_gone(pipelines: Pipelines) -> None:
    add_former(pipelines, lease(20, ttl=0.5))
    with pipelines.supervised():
        until(pipelines.began, "it is started on this host")
    assert pipelines.instances()[0].ended
    assert "old.example is gone" in json.loads(pipelines.instances()[0].error)["message"]
    assert len(pipelines.began()) == 1


@pytest.mark.parametrize("wanted", [Wanted.STARTED, Wanted.DELETING])
def test_until_that_is_known_it_waits_and_nothing_is_started(wanted: Wanted, pipelines: Pipelines) -> None:
    add_former(pipelines, lease(20))
    pipelines.want(wanted)
    with pipelines.supervised() as supervisor:
        until(lambda: code(pipelines) == "RPL-1530", "it is noted")
        supervisor.wake()
        pipelines.want(Wanted.STOPPED)
        supervisor.wake()
        until(lambda: pipelines.newest().ended, "it is given up when it is stopped")
    assert not pipelines.began()
    assert not pipelines.began(command="delete")


def test_a_pipeline_whose_state_never_saw_that_host_needs_someone(pipelines: Pipelines) -> None:
    add_former(pipelines, None)
    with pipelines.supervised():
        until(lambda: code(pipelines) == "RPL-1522", "it is noted")
    assert not pipelines.began()


def test_what_is_shown_meanwhile() -> None:
    now = datetime.now(UTC)
    assert state_of(Wanted.STARTED, newest({"code": "RPL-1530"}), now) is State.WAITING
    assert state_of(Wanted.DELETING, newest({"code": "RPL-1530"}), now) is State.DELETING
    assert state_of(Wanted.STARTED, newest({"code": "RPL-1522"}), now) is State.FAILED


def test_the_launcher_of_local_processes_names_the_other_host(tmp_path: Path) -> None:
    found: Seen = LocalLauncher(tmp_path, ["true"]).look(newest().place)
    assert found.host == OLD
