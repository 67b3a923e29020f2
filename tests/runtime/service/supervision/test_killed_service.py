"""A service killed at any step is followed by one that finds each process again, and starts none beside it."""

from __future__ import annotations

import json
import os
import signal
from unittest.mock import patch

import pytest

from replicator_runtime.service.supervision import keeper
from replicator_runtime.service.supervision.local import LocalLauncher
from replicator_runtime.service.supervision.states import Wanted
from tests.runtime.service.supervision.supervised import Pipelines, Services, kill, killed, lives
from tests.waits import until

_START = ("service.start.before_row", "service.start.row_stored", "service.start.process_started")


@pytest.mark.parametrize("point", _START)
def test_after_a_kill_while_it_starts_one_process_runs_and_is_stopped_in_order(
    point: str, pipelines: Pipelines, services: Services
) -> None:
    pipelines.add()
    killed(services.start(pipelines, failpoints=f"{point}=kill"))
    with pipelines.supervised() as supervisor:
        until(pipelines.began, "it runs")
        pipelines.want(Wanted.STOPPED)
        supervisor.wake()
        until(lambda: pipelines.newest().ended, "it has ended")
    assert pipelines.newest().exit_code == 143
    assert [line.split()[0] for line in pipelines.lines()] == ["run", "term", "end"]
    # A process that has not claimed its place yet is refused, and another one begins.
    assert len(pipelines.instances()) in {"service.start.before_row": {1}, "service.start.row_stored": {2}}.get(
        point, {1, 2}
    )


def test_after_a_kill_a_run_goes_on_and_its_exit_code_is_known(pipelines: Pipelines, services: Services) -> None:
    pipelines.add()
    service = services.start(pipelines)
    until(pipelines.began, "it runs")
    kill(service)
    (run,) = pipelines.began()
    with pipelines.supervised() as supervisor:
        supervisor.wake()
        until(lambda: not supervisor.refusal, "it supervises")
        pipelines.behave("exit 3")
        os.kill(run, signal.SIGKILL)
        until(lambda: len(pipelines.instances()) == 2 and pipelines.newest().ended, "the next one has ended")
    assert [one.exit_code for one in pipelines.instances()] == [137, 3]
    assert not any(line.startswith("double") for line in pipelines.lines())


def test_the_exit_code_of_a_run_that_ended_while_no_service_lived_is_known(
    pipelines: Pipelines, services: Services
) -> None:
    pipelines.add(behaviour="")
    service = services.start(pipelines)
    until(pipelines.began, "it runs")
    kill(service)
    os.kill(pipelines.began()[0], signal.SIGTERM)
    until((pipelines.place(pipelines.newest()) / keeper.EXIT).exists, "it has ended")
    pipelines.want(Wanted.STOPPED)
    with pipelines.supervised():
        until(lambda: pipelines.newest().ended, "its end is stored")
    assert pipelines.newest().exit_code == 143


@pytest.mark.parametrize("point", ["service.stop.before_signal", "service.stop.signalled"])
def test_after_a_kill_while_it_stops_the_run_is_asked_once_and_ends(
    point: str, pipelines: Pipelines, services: Services
) -> None:
    """A second SIGTERM would end a run at once."""
    pipelines.behave("held")
    pipelines.add()
    service = services.start(pipelines, failpoints=f"{point}=kill")
    until(pipelines.began, "it runs")
    pipelines.want(Wanted.STOPPED)
    killed(service)
    asked = patch.object(LocalLauncher, "stop", autospec=True, side_effect=LocalLauncher.stop)
    with asked as stop, pipelines.supervised():
        until(lambda: stop.called and "term" in pipelines.lines(), "it is asked to end")
        pipelines.behave("go")
        until(lambda: pipelines.newest().ended, "it has ended")
    assert pipelines.newest().exit_code == 143
    assert [line.split()[0] for line in pipelines.lines()] == ["run", "term", "end"]


@pytest.mark.parametrize("point", ["service.end.seen", "service.end.stored"])
def test_after_a_kill_at_its_end_the_end_is_known_and_nothing_is_started_again(
    point: str, pipelines: Pipelines, services: Services
) -> None:
    pipelines.add(behaviour="exit 7")
    killed(services.start(pipelines, failpoints=f"{point}=kill"))
    with pipelines.supervised() as supervisor:
        until(lambda: pipelines.newest().ended, "its end is stored")
        pipelines.add("later")
        supervisor.wake()
        until(lambda: pipelines.began("later"), "the other one runs")
    assert [one.exit_code for one in pipelines.instances()] == [7]
    assert json.loads(pipelines.newest().error)["code"] == "RPL-7000"
    assert len(pipelines.began()) == 1


@pytest.mark.parametrize(
    "point",
    ["service.start.row_stored", "service.start.process_started", "service.end.stored", "service.delete.removed"],
)
def test_after_a_kill_while_it_is_deleted_it_is_deleted(point: str, pipelines: Pipelines, services: Services) -> None:
    pipelines.add(wanted=Wanted.DELETING)
    killed(services.start(pipelines, failpoints=f"{point}=kill"))
    with pipelines.supervised():
        until(lambda: not pipelines.names(), "it is gone")
        until(lambda: not pipelines.left(), "nothing is left of it")
    assert pipelines.began(command="delete")
    assert not pipelines.began(command="run")
    assert not any(line.startswith("double") for line in pipelines.lines())


def test_of_two_services_one_supervises_and_the_other_follows_when_it_is_killed(
    pipelines: Pipelines, services: Services
) -> None:
    pipelines.add()
    service = services.start(pipelines)
    until(pipelines.began, "it runs")
    with pipelines.supervised() as second:
        until(lambda: "another service" in second.refusal, "it says that another one supervises")
        pipelines.add("later")
        until(lambda: pipelines.began("later"), "the first one starts what the second one's requests want")
        kill(service)
        until(lambda: not second.refusal, "the second one follows")
        pipelines.want(Wanted.STOPPED)
        pipelines.want(Wanted.STOPPED, "later")
        second.wake()
        until(lambda: pipelines.newest().ended and pipelines.newest("later").ended, "both have ended")
    assert [pipelines.newest(name).exit_code for name in ("shop", "later")] == [143, 143]
    assert len(pipelines.began()) == len(pipelines.began("later")) == 1
    assert not any(lives(pid) for pid in pipelines.began())
