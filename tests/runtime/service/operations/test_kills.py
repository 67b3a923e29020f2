"""SIGKILL of the service, or of the process that carries a request out, at each step: the next one does it once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from replicator_runtime.service.operations import carrier
from replicator_state import ReplicatorDirectory
from tests.architecture.packages import ROOT
from tests.runtime.service.operations.ran import PIPELINE, Ran, awaited, with_pipeline

PAUSE = ("tables/pause", {"tables": ["orders"]})
OF_ACTIONS = ("service.action.stored", "service.carrier.free", "service.carrier.started", "service.carrier.ended")
OF_JOBS = ("service.job.stored", "service.job.running", "service.job.spawned", "service.job.ended")
OF_CHILDREN = (
    "service.carry_out.began",
    "engine.request.begun",
    "engine.request.carried_out",
    "service.carry_out.ended",
)
OF_JOB_PROCESSES = ("service.job.began", "service.job.done", "service.job.kept")


@pytest.fixture(scope="module")
def killed(ran: Ran, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What services leave that were killed, by the point's name."""
    folder = tmp_path_factory.mktemp("killed")
    points = (
        {"service.action.before": PAUSE} | dict.fromkeys(OF_ACTIONS, PAUSE) | dict.fromkeys(OF_JOBS, ("reset", None))
    )
    plan = {"points": points, "config": ran.config, "state": str(ran.folder / "state")}
    (folder / "plan.json").write_text(json.dumps(plan), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{ran.python_path}:{ROOT}")
        program = "tests.runtime.service.operations.killed_service"
        subprocess.run([sys.executable, "-m", program, str(folder)], check=True, timeout=300, cwd=ROOT)
    assert json.loads((folder / "killed.json").read_text("utf-8")) == dict.fromkeys(points, -9)
    return folder


def requests_of(folder: Path) -> list[Any]:
    return ReplicatorDirectory(str(folder / "state"), "default", "shop").requests().history()


def done_once(folder: Path) -> bool:
    """Whether the request was carried out."""
    [entry] = requests_of(folder)
    return entry.outcome is not None and entry.outcome.state.value == "done"


def test_a_service_that_is_killed_before_it_stores_a_request_has_asked_for_nothing(killed: Path) -> None:
    assert requests_of(killed / "service.action.before") == []


@pytest.mark.parametrize("point", OF_ACTIONS)
def test_a_stored_request_is_carried_out_once_by_the_next_service(
    point: str, killed: Path, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", ran.python_path)
    with with_pipeline(killed / point, ran.config) as service:
        awaited(lambda: done_once(killed / point), "the request's outcome")
        [row] = service.client.get(f"{PIPELINE}/requests").json()
        assert (row["state"], row["by"]) == ("done", "local")


@pytest.mark.parametrize("point", OF_JOBS)
def test_a_job_is_done_once_whichever_service_sees_its_end(
    point: str, killed: Path, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", ran.python_path)
    with with_pipeline(killed / point, ran.config) as service:

        def ended() -> dict[str, Any] | None:
            [job] = service.client.get("/v1/contexts/default/jobs").json()
            return dict(job) if job["state"] not in {"waiting", "running"} else None

        job = awaited(ended, "the job's end")
        assert (job["state"], job["exitCode"]) == ("done", 0)
        result = service.client.get(f"/v1/contexts/default/jobs/{job['id']}").json()["result"]
        assert result["data"] == {"generation": 2}


@pytest.mark.parametrize("point", OF_CHILDREN)
def test_a_process_that_is_killed_while_it_carries_out_is_followed_by_another(
    point: str, ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carrier, "_LOOK_SECONDS", 0.1)
    monkeypatch.setenv("PYTHONPATH", ran.python_path)
    monkeypatch.setenv("REPLICATOR_FAILPOINTS", f"{point}=kill")
    ended: list[int | None] = []
    whole = carrier.Carrier._await

    def seen(self: carrier.Carrier, key: tuple[str, str], process: subprocess.Popen[bytes]) -> None:
        process.wait()
        if not ended:  # the next one is not killed
            monkeypatch.delenv("REPLICATOR_FAILPOINTS")
        ended.append(process.returncode)
        whole(self, key, process)

    monkeypatch.setattr(carrier.Carrier, "_await", seen)
    ran.copy_to(tmp_path)
    with with_pipeline(tmp_path, ran.config) as service:
        assert service.client.post(f"{PIPELINE}/{PAUSE[0]}", json=PAUSE[1]).status_code == 202
        awaited(lambda: ended and done_once(tmp_path), "the request's outcome")
    assert ended[0] == -9


@pytest.mark.parametrize("point", OF_JOB_PROCESSES)
def test_a_job_whose_process_is_killed_says_so_and_keeps_a_result_that_is_there(
    point: str, ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", ran.python_path)
    monkeypatch.setenv("REPLICATOR_FAILPOINTS", f"{point}=kill")
    ran.copy_to(tmp_path)
    with with_pipeline(tmp_path, ran.config) as service:
        job_id = service.client.post(f"{PIPELINE}/reset").json()["id"]
        place = f"/v1/contexts/default/jobs/{job_id}"
        awaited(lambda: service.client.get(place).json()["state"] not in {"waiting", "running"}, "the job's end")
        found = service.client.get(place).json()
    assert (found["state"], found["exitCode"]) == ("failed", -9)
    if point == "service.job.kept":
        assert found["result"]["data"] == {"generation": 2}
    else:
        assert found["result"]["error"]["code"] == "RPL-1565"
