"""What is kept of the output of a pipeline's processes, however often they are started, and who may read it."""

from __future__ import annotations

import json
import socket
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from ulid import ULID

from replicator_runtime.service.settings import ServiceSettings
from replicator_runtime.service.store.database import Database
from replicator_runtime.service.store.tables import Instance
from replicator_runtime.service.supervision import keeper, supervisor
from replicator_runtime.service.supervision.local import END_BYTES, OUTPUT_BYTES
from replicator_runtime.service.supervision.records import KEPT_INSTANCES, WHOLE_OUTPUTS
from replicator_runtime.service.supervision.states import Wanted
from tests.runtime.service.operations.ran import PIPELINE, add_pipeline
from tests.runtime.service.services import running
from tests.runtime.service.supervision.supervised import Pipelines
from tests.waits import until

HALF = OUTPUT_BYTES // 2


def ended(settings: ServiceSettings, database: Database, output: bytes, hours: int = 0) -> Path:
    """A process that ended so many hours ago: its folder, with this as its newest output."""
    at = datetime.now(UTC) - timedelta(hours=hours)
    instance = str(ULID.from_datetime(at))
    folder = settings.work_folder / "instances" / instance
    folder.mkdir(parents=True)
    (folder / keeper.PROCESS).write_text("{}")
    (folder / keeper.OUTPUT).write_bytes(output)
    handle = json.dumps({"host": socket.gethostname(), "folder": str(folder)})
    row = Instance(
        instance_id=instance,
        namespace="default",
        name="shop",
        launcher="local",
        handle=handle,
        command="run",
        config_version=1,
        started=at,
        ended=at,
        exit_code=137,
        error="",
    )
    with database.session() as session:
        session.add(row)
    return folder


def ended_before(pipelines: Pipelines, count: int) -> list[Path]:
    """Processes with all the output that a keeper leaves, the oldest first."""
    folders = []
    for number in range(count):
        output = b"x" * (HALF - 9) + f"line {number:3}\n".encode()
        folder = ended(pipelines.settings, pipelines.database, output, count - number)
        (folder / keeper.OLDER_OUTPUT).write_bytes(b"x" * HALF)
        (folder / keeper.RESULT).write_bytes(b" " * keeper.RESULT_BYTES)
        folders.append(folder)
    return folders


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir() if file.name != keeper.PROCESS)


def test_the_newest_processes_keep_their_output_and_older_ones_the_end_of_it(pipelines: Pipelines) -> None:
    folders = ended_before(pipelines, KEPT_INSTANCES + 2)
    pipelines.add()
    with pipelines.supervised() as one:
        until(pipelines.began, "it has begun")
        pipelines.want(Wanted.STOPPED)
        one.wake()
        until(lambda: not folders[2].exists(), "the oldest are deleted")
    assert not any(folder.exists() for folder in folders[:3])
    whole, shortened = folders[1 - WHOLE_OUTPUTS :], folders[3 : 1 - WHOLE_OUTPUTS]
    assert [size(folder) for folder in whole] == [OUTPUT_BYTES + keeper.RESULT_BYTES] * (WHOLE_OUTPUTS - 1)
    assert len(shortened) == KEPT_INSTANCES - WHOLE_OUTPUTS
    for number, folder in enumerate(shortened, 3):
        assert size(folder) == END_BYTES
        assert (folder / keeper.OUTPUT).read_bytes().endswith(f"line {number:3}\n".encode())
        assert (folder / keeper.OUTPUT).stat().st_mode & 0o777 == 0o600


def test_output_that_cannot_be_shortened_delays_no_start(pipelines: Pipelines) -> None:
    (folder, *_) = ended_before(pipelines, WHOLE_OUTPUTS + 1)
    (folder / keeper.OUTPUT).unlink()
    (folder / keeper.OUTPUT).mkdir()  # which cannot be read as a file is
    pipelines.add(behaviour="exit 4")
    with pipelines.supervised():
        until(lambda: len(pipelines.began()) == 2, "it was started again")


def test_the_last_words_of_a_process_are_read_without_secrets(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        add_pipeline(service, {})
        missing = service.client.get(f"{PIPELINE}/output")
        assert (missing.status_code, missing.json()["code"]) == (404, "RPL-1531")
        settings, database = service.context.settings, service.context.database
        first = ended(settings, database, b"java.lang.OutOfMemoryError\n", 1).name
        newest = ended(settings, database, b"password=hunter22\nKilled\n").name
        found = service.client.get(f"{PIPELINE}/output").json()
        assert (found["process"]["id"], found["process"]["exitCode"]) == (newest, 137)
        assert found["text"] == "password=***\nKilled\n"
        assert [one["id"] for one in found["others"]] == [first]
        end = service.client.get(f"{PIPELINE}/output", params={"bytes": 18}).json()
        assert end["text"] == "Killed\n", "the rest of a line may hold a part of a secret that is not known as one"
        older = service.client.get(f"{PIPELINE}/output", params={"process": first}).json()
        assert older["text"] == "java.lang.OutOfMemoryError\n"


def test_a_supervisor_that_waits_for_its_database_does_not_keep_the_service_from_ending(
    pipelines: Pipelines, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits, goes_on, released = threading.Event(), threading.Event(), []

    def take() -> bool:
        waits.set()
        goes_on.wait()
        return False

    monkeypatch.setattr(supervisor, "_CLOSE_SECONDS", 0.1)
    with pipelines.supervised() as one:
        lease, release = one._lease, one._lease.release
        monkeypatch.setattr(lease, "take", take)
        monkeypatch.setattr(lease, "release", lambda: released.append(True))
        one._renewed_at = 0.0
        one.wake()
        until(waits.is_set, "it asks for its lease")
        one.close()
        assert not released, "a lease that is given away is another service's, while this thread may act"
        monkeypatch.setattr(lease, "release", release)
        goes_on.set()
    one.wake()  # as a request does that outlives the service
