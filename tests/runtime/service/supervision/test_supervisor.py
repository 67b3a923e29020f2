"""A supervisor brings about what is wanted of each pipeline."""

from __future__ import annotations

import errno
import json
import os
import signal
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from replicator_runtime.service.pipelines import changes
from replicator_runtime.service.store.tables import Instance
from replicator_runtime.service.supervision import keeper
from replicator_runtime.service.supervision.launcher import Seen
from replicator_runtime.service.supervision.local import LocalLauncher
from replicator_runtime.service.supervision.states import Wanted
from tests.runtime.service.supervision.supervised import Pipelines, lives
from tests.waits import until


def test_a_started_pipeline_runs_and_ends_in_order_when_it_is_stopped(pipelines: Pipelines) -> None:
    pipelines.add()
    with pipelines.supervised() as supervisor:
        until(pipelines.began, "it has begun")
        assert pipelines.lines()[0].split(maxsplit=2)[2] == "--log-format json --json"
        pipelines.want(Wanted.STOPPED)
        supervisor.wake()
        until(lambda: pipelines.newest().ended, "it has ended")
        assert pipelines.newest().exit_code == 143
        assert pipelines.newest().dismissed
        assert pipelines.lines()[1:] == ["term", "end 143"]
    assert not lives(pipelines.began()[0])


def test_an_exit_code_that_needs_someone_is_not_restarted(pipelines: Pipelines) -> None:
    pipelines.add(behaviour="exit 7")
    pipelines.add("later")
    with pipelines.supervised() as supervisor:
        until(lambda: pipelines.instances() and pipelines.newest().ended, "it has ended")
        supervisor.wake()
        until(lambda: pipelines.began("later"), "the other one runs")
    assert len(pipelines.began()) == 1
    assert pipelines.newest().exit_code == 7
    assert json.loads(pipelines.newest().error)["hint"] == "do what helps"


def test_a_failed_start_is_followed_by_others_after_a_growing_while(pipelines: Pipelines) -> None:
    pipelines.add(behaviour="exit 4")
    with pipelines.supervised():
        until(lambda: len(pipelines.began()) == 2, "it was started again")
        pipelines.behave("")
        until(lambda: len(pipelines.began()) == 3, "and again")
    first, second, third = pipelines.instances()
    assert [one.restarts for one in (first, second, third)] == [0, 1, 2]
    assert first.ended is not None
    assert second.ended is not None
    assert (second.started - first.ended).total_seconds() >= 1
    assert (third.started - second.ended).total_seconds() >= 2
    assert not any(line.startswith("double") for line in pipelines.lines())


def test_a_run_that_is_killed_is_started_again_and_its_signal_is_known(pipelines: Pipelines) -> None:
    pipelines.add()
    with pipelines.supervised():
        until(pipelines.began, "it has begun")
        os.kill(pipelines.began()[0], signal.SIGKILL)
        until(lambda: len(pipelines.began()) == 2, "it was started again")
    assert pipelines.instances()[0].exit_code == 137
    assert "signal 9" in json.loads(pipelines.instances()[0].error)["message"]


def test_the_kernel_kills_a_run_whose_keeper_is_killed(pipelines: Pipelines) -> None:
    """Else it would go on where no one knows its exit code, beside the next one."""
    pipelines.add(behaviour="ignore")
    with pipelines.supervised():
        until(pipelines.began, "it has begun")
        first = pipelines.began()[0]
        os.kill(pipelines.keeper_of(pipelines.newest()), signal.SIGKILL)
        until(lambda: len(pipelines.began()) == 2, "it was started again")
        assert not lives(first)
    assert pipelines.instances()[0].exit_code is None
    assert not any(line.startswith("double") for line in pipelines.lines())


def test_a_slow_stop_delays_no_other_pipeline_and_ends_by_a_kill(pipelines: Pipelines) -> None:
    pipelines.settings = pipelines.settings.__class__(
        **{name: getattr(pipelines.settings, name) for name in pipelines.settings.__slots__} | {"stop_seconds": 1.5}
    )
    pipelines.add("slow", behaviour="ignore")
    pipelines.add("quick")
    with pipelines.supervised() as supervisor:
        until(lambda: pipelines.began("slow") and pipelines.began("quick"), "both run")
        pipelines.want(Wanted.STOPPED, "slow")
        supervisor.wake()
        until(lambda: pipelines.newest("slow").dismissed, "it is asked to end")
        pipelines.want(Wanted.STOPPED, "quick")
        supervisor.wake()
        until(lambda: pipelines.newest("quick").ended, "the other one has ended")
        assert pipelines.newest("slow").ended is None
        until(lambda: pipelines.newest("slow").ended, "it was killed")
    assert pipelines.newest("slow").exit_code == 137
    assert not lives(pipelines.began("slow")[0])


def test_the_output_of_a_run_has_a_bound(pipelines: Pipelines) -> None:
    pipelines.add(behaviour=f"print {3 * 1024 * 1024}")
    with pipelines.supervised() as supervisor:
        until(pipelines.began, "it has begun")
        pipelines.want(Wanted.STOPPED)
        supervisor.wake()
        until(lambda: pipelines.newest().ended, "it has ended")
    folder = pipelines.place(pipelines.newest())
    kept = sum((folder / name).stat().st_size for name in (keeper.OUTPUT, keeper.OLDER_OUTPUT))
    assert 1024 * 1024 < kept <= 2 * 1024 * 1024
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_pipeline_that_cannot_be_looked_at_delays_no_other(
    pipelines: Pipelines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk, or a folder that this user may not read."""
    refuse = LocalLauncher.refuse
    now = datetime.now(UTC)
    broken = json.dumps({"host": "here", "folder": "/nowhere/broken"})

    def refuse_but_one(launcher: LocalLauncher, place: str) -> Seen:
        if place == broken:
            raise OSError(errno.ENOSPC, "no space left on device")
        return refuse(launcher, place)

    monkeypatch.setattr(LocalLauncher, "refuse", refuse_but_one)
    pipelines.add("a")
    pipelines.add("b")
    row = {"instance_id": "0" * 26, "namespace": "default", "name": "a", "launcher": "local", "handle": broken}
    with pipelines.database.session() as session:
        session.add(Instance(**row, command="run", config_version=1, started=now))
    with pipelines.supervised() as supervisor:
        until(lambda: pipelines.began("b"), "the other one runs")
        pipelines.want(Wanted.STOPPED, "b")
        supervisor.wake()
        until(lambda: pipelines.newest("b").ended, "and is stopped")
    assert not pipelines.began("a")


def test_the_supervisor_goes_on_where_no_more_files_can_be_opened_for_a_while(
    pipelines: Pipelines, monkeypatch: pytest.MonkeyPatch
) -> None:
    descriptor = LocalLauncher.descriptor
    failures: list[str] = []

    def descriptor_or_none_left(launcher: LocalLauncher, place: str) -> int | None:
        if not failures:
            failures.append(place)
            raise OSError(errno.EMFILE, "too many open files")
        return descriptor(launcher, place)

    pipelines.add()
    with pipelines.supervised() as supervisor:
        until(pipelines.began, "it has begun")
        monkeypatch.setattr(LocalLauncher, "descriptor", descriptor_or_none_left)
        pipelines.add("later")
        supervisor.wake()
        until(lambda: pipelines.began("later"), "another one begins")
        assert failures
        assert not supervisor.is_stuck
    assert len(pipelines.began()) == 1


def test_a_pipeline_that_ran_and_whose_state_is_not_found_is_removed_when_that_is_asked_for_again(
    pipelines: Pipelines,
) -> None:
    """The state may be on a disk that is not mounted; the source keeps what was made for the pipeline."""
    pipelines.add()
    with pipelines.supervised() as supervisor:
        until(pipelines.began, "it has begun")
        pipelines.behave("nothing")
        pipelines.want(Wanted.DELETING)
        supervisor.wake()
        until(lambda: pipelines.newest().command == "delete" and pipelines.newest().ended, "it was looked for")
        until(lambda: pipelines.newest().error, "its error is stored")
        assert json.loads(pipelines.newest().error)["code"] == "RPL-1529"
        assert pipelines.names() == ["shop"]
        pipelines.want(Wanted.DELETING, dismiss=True)
        supervisor.wake()
        until(lambda: not pipelines.names(), "it is removed")


@pytest.mark.parametrize("code", [None, 2])
def test_a_pipeline_that_has_stored_nothing_is_removed_at_once(code: int | None, pipelines: Pipelines) -> None:
    pipelines.add(behaviour="exit 2" if code else "nothing", wanted=Wanted.STARTED if code else Wanted.DELETING)
    with pipelines.supervised() as supervisor:
        if code:
            until(lambda: pipelines.instances() and pipelines.newest().ended, "it has ended")
            pipelines.behave("nothing")
            pipelines.want(Wanted.DELETING)
            supervisor.wake()
        until(lambda: not pipelines.names(), "it is removed")


def test_a_deletion_that_hangs_or_has_other_options_than_are_asked_for_now_is_begun_again(pipelines: Pipelines) -> None:
    pipelines.add(behaviour="hangs")
    with pipelines.supervised() as supervisor:
        context: Any = SimpleNamespace(database=pipelines.database, supervisor=supervisor)

        def delete(*, keep_source: bool = False) -> None:
            changes.delete(context, "default", "shop", None, target_tables=False, keep_source=keep_source)

        delete()
        until(lambda: len(pipelines.began(command="delete")) == 1, "it hangs")
        delete()
        assert not pipelines.newest().dismissed  # a request that was only sent twice
        delete(keep_source=True)
        until(lambda: len(pipelines.began(command="delete")) == 2, "it was begun again")
        assert "--keep-source" in pipelines.lines()[-1]
        with pipelines.database.session() as session:
            session.get_one(Instance, pipelines.newest().instance_id).started -= timedelta(minutes=1)
        pipelines.behave("")
        delete(keep_source=True)
        until(lambda: not pipelines.names(), "it is removed")
