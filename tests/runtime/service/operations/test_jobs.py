"""Commands that take long are jobs in processes of their own, which outlive the service; their results are bounded."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError
from ulid import ULID

from replicator_runtime.service.access.roles import Role
from replicator_runtime.service.operations import jobs
from replicator_runtime.service.operations.job_process import PROCESS, WORDS, bounded
from replicator_runtime.service.operations.job_records import JobRecords
from replicator_runtime.service.operations.jobs import FORGOTTEN_AFTER, Jobs
from replicator_runtime.service.settings import ServiceSettings
from replicator_runtime.service.store.database import Database
from replicator_runtime.service.store.tables import Job
from tests.runtime.service.operations.ran import PIPELINE, Ran, awaited, with_pipeline
from tests.runtime.service.services import Service, settings_in

JOBS = "/v1/contexts/default/jobs"
SOME, OTHER = "01ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FAW"


def started(service: Service, action: str, body: dict[str, Any] | None = None) -> str:
    answer = service.client.post(f"{PIPELINE}/{action}", json=body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def ended(service: Service, job_id: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        found: dict[str, Any] = service.client.get(f"{JOBS}/{job_id}").json()
        return found if found["state"] not in {"waiting", "running"} else None

    return awaited(look, "the job's end")


def process_of(service: Service, job_id: str) -> int:
    file = service.context.settings.work_folder / "jobs" / job_id / PROCESS
    awaited(file.exists, "the job's process")
    return int(json.loads(file.read_bytes())["pid"])


def test_a_job_has_the_result_of_its_command_and_says_who_asked(shop: Service) -> None:
    job_id = started(shop, "reset")
    second = started(shop, "explainRow", {"table": "--help", "key": {"id": 7}})
    found = ended(shop, job_id)
    assert (found["state"], found["exitCode"], found["by"], found["command"]) == (
        "done",
        0,
        "local",
        ["reset", "--yes", "shop"],
    )
    assert found["result"]["data"] == {"generation": 2}
    assert found["result"]["schema"] == "replicator.reset/v1"
    refused = ended(shop, second)
    assert refused["command"] == ["explain-row", "shop", "--help", "KEY"]
    assert (refused["state"], refused["result"]["error"]["code"]) == ("failed", "RPL-1220")
    assert [job["id"] for job in shop.client.get(JOBS, params={"pipeline": "shop"}).json()] == [second, job_id]
    assert not list((shop.context.settings.work_folder / "jobs").iterdir())


def test_a_job_is_found_again_after_the_service_has_ended_and_one_whose_process_has_ended_is_lost(
    ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", ran.python_path)
    monkeypatch.setenv("REPLICATOR_FAILPOINTS", "service.job.began=delay:3")
    ran.copy_to(tmp_path)
    with with_pipeline(tmp_path, ran.config) as service:
        job_id, lost = started(service, "reset"), started(service, "heal")
        process_of(service, job_id)
    monkeypatch.setenv("REPLICATOR_FAILPOINTS", "service.job.began=delay:600")
    with with_pipeline(tmp_path, ran.config) as service:
        assert service.client.get(f"{JOBS}/{job_id}").json()["state"] == "running"
        assert ended(service, job_id)["result"]["data"] == {"generation": 2}
        process = process_of(service, lost)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    with with_pipeline(tmp_path, ran.config) as service:
        found = ended(service, lost)
        assert (found["state"], found["result"]["error"]["code"]) == ("lost", "RPL-1565")


def test_a_job_is_cancelled_while_it_waits_and_while_it_runs(
    ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", ran.python_path)
    monkeypatch.setenv("REPLICATOR_FAILPOINTS", "service.job.began=delay:600")
    ran.copy_to(tmp_path)
    with with_pipeline(tmp_path, ran.config) as service:
        running, waiting = started(service, "reset"), started(service, "reset")
        process_of(service, running)
        assert service.client.delete(f"{JOBS}/{waiting}").json()["state"] == "cancelled"
        assert service.client.delete(f"{JOBS}/{running}").status_code == 202
        assert ended(service, running)["state"] == "cancelled"
        assert service.client.delete(f"{JOBS}/{running}").json()["state"] == "cancelled"
        assert service.client.delete(f"{JOBS}/01ARZ3NDEKTSV4RRFFQ69G5FAV").json()["code"] == "RPL-1564"


def test_a_result_that_is_too_long_is_cut_and_says_so() -> None:
    rows = [{"table": f"t{number}", "result": "equal"} for number in range(1000)]
    found = bounded({"schema": "s", "data": rows, "warnings": [], "error": None, "lines": ["x"]}, 10_000)
    assert len(json.dumps(found)) < 10_500
    left = len(found["data"])
    assert found["data"][0] == {"table": "t0", "result": "equal"}
    assert found["warnings"] == [f"{1000 - left:,} more entries of data are left out: the result was too long"]
    assert bounded({"data": {"text": "x" * 20_000}, "warnings": []}, 10_000)["data"] is None


def test_results_of_older_jobs_are_short(idle: Idle) -> None:
    """Or the database of 200 pipelines grows by gigabytes."""
    records = JobRecords(idle.database, idle.settings.work_folder)
    ids = [str(ULID.from_timestamp(number)) for number in range(1, 223)]
    output = json.dumps({"data": {"tables": ["x" * 100] * 1_000}, "error": None, "warnings": []})
    with idle.database.session() as session:
        for job_id in ids:
            row = {"job_id": job_id, "namespace": "default", "name": "shop", "command": "[]", "by": "me"}
            session.add(Job(**row, state="done", started=datetime.now(UTC), output=output))
    assert records.prune("default", "shop") == ids[:22][::-1]
    with idle.database.session() as session:
        kept = {job.job_id: job.output for job in session.query(Job).all()}
    assert sorted(kept) == ids[22:]
    assert {kept[job_id] for job_id in ids[-20:]} == {output}
    (short,) = {kept[job_id] for job_id in ids[22:-20]}
    assert len(short) <= 16 * 1024
    assert "more entries of data.tables are left out" in json.loads(short)["warnings"][0]
    records.prune("default", "shop")
    with idle.database.session() as session:
        assert {job.job_id: job.output for job in session.query(Job).all()} == kept


def test_what_cannot_be_taken_back_needs_an_admin(service_with_tokens: Service) -> None:
    operator = service_with_tokens.client_of(Role.OPERATOR)
    for action, body in (
        ("reset", None),
        ("heal", None),
        ("verify", {"repair": True}),
        ("offsets/rewind", {"offset": "x"}),
        ("approvals", {"plan": "0" * 12}),
    ):
        assert operator.post(f"{PIPELINE}/{action}", json=body).status_code == 403, action


def test_jobs_of_another_work_folder_are_left_alone_until_its_service_is_silent(shop: Service) -> None:
    records = shop.context.jobs.records
    for job_id, seen in ((SOME, datetime.now(UTC)), (OTHER, datetime.now(UTC) - 2 * FORGOTTEN_AFTER)):
        records.add(job_id, "default", "shop", ["verify"], "someone")
        place = json.dumps({"place": "elsewhere:/work", "seen": seen.isoformat()})
        records.change(job_id, "running", ["waiting"], started=seen, output=place)
    assert ended(shop, OTHER)["state"] == "lost"
    assert shop.client.get(f"{JOBS}/{SOME}").json()["state"] == "running"


@dataclass
class Idle:
    """Services of one work folder, whose jobs do nothing until `end` is called."""

    settings: ServiceSettings
    database: Database
    spawned: list[str]
    opened: list[Jobs]
    processes: list[subprocess.Popen[bytes]]

    def service(self) -> Jobs:
        """Another one, which has begun."""
        jobs = Jobs(self.settings, self.database)
        jobs.resume()
        self.opened.append(jobs)
        return jobs

    def states(self) -> dict[str, str]:
        """Of the jobs, by their pipelines."""
        with self.database.session() as session:
            return {job.name: job.state for job in session.query(Job).all()}

    def end(self) -> None:
        """End the processes that run now."""
        for process in self.processes:
            process.terminate()


@pytest.fixture
def idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Idle]:
    settings = settings_in(tmp_path)
    settings.work_folder.mkdir()
    database = Database(settings.store)
    database.prepare()
    found = Idle(settings, database, [], [], [])

    def spawn(self: Jobs, one: Any, lock: int) -> subprocess.Popen[bytes]:
        found.spawned.append(one.job_id)
        (settings.work_folder / "jobs" / one.job_id / PROCESS).write_text("{}")
        process = subprocess.Popen(["sleep", "600"], pass_fds=[lock])
        found.processes.append(process)
        return process

    monkeypatch.setattr(Jobs, "_spawn", spawn)
    monkeypatch.setattr(jobs, "_PASS_SECONDS", 0.05)
    yield found
    for service in found.opened:
        service.close()
    for process in found.processes:
        process.kill()
        process.wait()
    database.close()


def test_of_two_services_of_a_work_folder_one_runs_the_jobs_of_both_and_the_other_follows_it(idle: Idle) -> None:
    first = idle.service()
    awaited(lambda: first._held, "the lock")
    for name in "abc":
        first.start("default", name, ["verify", name], ["verify"], "me")
    second = idle.service()
    second.start("other", "d", ["verify", "d"], ["verify"], "me")
    awaited(lambda: len(idle.spawned) == 3, "a job of the second service")
    assert idle.states() == {"a": "running", "b": "running", "c": "waiting", "d": "running"}
    assert second._held is None
    first.close()
    awaited(lambda: second._held, "the lock")
    idle.end()
    awaited(lambda: idle.states() == {"a": "lost", "b": "lost", "c": "running", "d": "lost"}, "the ends")
    assert len(idle.spawned) == len(set(idle.spawned)) == 4


def test_a_job_is_begun_and_ended_once_the_store_answers_again(idle: Idle, monkeypatch: pytest.MonkeyPatch) -> None:
    service = idle.service()
    awaited(lambda: service._held, "the lock")
    whole, refused = JobRecords.change, list[str]()

    def away(self: JobRecords, job_id: str, state: str, *words: Any, **values: Any) -> bool:
        if refused.count(state) < 1:
            refused.append(state)
            raise OperationalError("UPDATE", {}, Exception("database is locked"))
        return whole(self, job_id, state, *words, **values)

    monkeypatch.setattr(JobRecords, "change", away)
    service.start("default", "a", ["reset", "a"], ["reset"], "me")
    awaited(lambda: idle.states() == {"a": "running"}, "its begin")
    idle.end()
    awaited(lambda: idle.states() == {"a": "failed"}, "its end")
    assert {"running", "failed"} <= set(refused)
    assert len(idle.spawned) == 1


def test_a_job_that_waited_while_no_service_lived_for_long_is_not_run_any_more(idle: Idle) -> None:
    for job_id, ago in ((SOME, FORGOTTEN_AFTER * 2), (OTHER, FORGOTTEN_AFTER / 2)):
        folder = idle.settings.work_folder / "jobs" / job_id
        folder.mkdir(parents=True)
        (folder / WORDS).write_text("[]")
        records = JobRecords(idle.database, idle.settings.work_folder.absolute())
        records.add(job_id, "default", job_id, ["reset"], "me")
        seen = datetime.now(UTC) - ago
        place = json.dumps({**json.loads(records.place), "seen": seen.isoformat()})
        records.change(job_id, "waiting", ["waiting"], started=seen, output=place)
    idle.service()
    awaited(lambda: idle.states() == {SOME: "lost", OTHER: "running"}, "what follows")
    assert idle.spawned == [OTHER]


def test_a_job_whose_words_cannot_be_written_is_none(idle: Idle, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(jobs, "write_private", full)
    with pytest.raises(OSError, match="space"):
        idle.service().start("default", "a", ["reset", "a"], ["reset"], "me")
    assert idle.states() == {}


def test_what_is_left_of_jobs_without_a_row_is_deleted(idle: Idle) -> None:
    folder = idle.settings.work_folder / "jobs" / SOME
    folder.mkdir(parents=True)
    (folder / WORDS).write_text('["explain-row", "--key", "7"]')
    new = folder.with_name(OTHER)
    new.mkdir()
    os.utime(folder, (0, 0))
    idle.service()
    awaited(lambda: not folder.exists(), "its removal")
    assert new.exists()
