"""What a service of 500 drafts and 200 pipelines costs, with 1,000 event streams: processor time of each list, and memory."""

from __future__ import annotations

import json
import socket
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path

import httpx
import psutil
import pytest

from replicator_runtime.service.pipelines.items import list_texts
from replicator_runtime.service.store.database import Database
from replicator_runtime.service.store.tables import Draft, Pipeline
from replicator_state import ReplicatorDirectory
from tests.runtime.cli.service.served import Served, served
from tests.runtime.cli.service.test_same_output import config, status
from tests.runtime.service.services import running

DRAFTS, PIPELINES, STREAMS, TABLES = 500, 200, 1000, 20
MEGABYTES, MEGABYTES_WITH_STREAMS = 150, 200
"""The second is what the frames of the libraries take for each open stream, about 80 KB: more than is asked of a service."""
SECONDS_OF_A_LIST = 0.02
"""Of one core: 50 lists a second take one."""
NAMESPACE = "/v1/contexts/default"
LISTS = {"drafts": DRAFTS, "connections": 0, "jobs": 0}
CLIENTS, REQUESTS, AT_ONCE = 8, 50, 20


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service with drafts, and with pipelines that have run."""
    folder = tmp_path_factory.mktemp("many")
    _fill(folder)
    with served(folder, "--auth", "none") as service:
        yield service


def _fill(folder: Path) -> None:
    now = datetime.now(UTC)
    tables = [{"database": "main", "schema": "", "table": f"table_{number}"} for number in range(TABLES)]
    document = config(folder) | {"tables": [{"table": table["table"]} for table in tables]}
    with closing(Database(f"sqlite:///{folder / 'service.db'}")) as database:
        database.prepare()
        with database.session() as session:
            named = {"namespace": "default", "created": now, "updated": now}
            session.add_all(Draft(name=f"draft-{n:03}", config=json.dumps(document), **named) for n in range(DRAFTS))
            session.add_all(
                Pipeline(name=f"pipe-{n:03}", config=json.dumps(document | {"name": f"pipe-{n:03}"}), **named)
                for n in range(PIPELINES)
            )
    one = status()
    for number in range(PIPELINES):
        name = f"pipe-{number:03}"
        directory = ReplicatorDirectory(str(folder / "kept"), "default", name)
        found = [{**one["tables"][0], **table, "error": None} for table in tables]
        directory.states().put_status({**one, "name": name, "tables": found})


def _megabytes(pid: int) -> float:
    return float(psutil.Process(pid).memory_full_info().uss) / 2**20


def _processor_seconds(pid: int) -> float:
    spent = psutil.Process(pid).cpu_times()
    return float(spent.user + spent.system)


def test_lists_take_less_than_a_core_at_fifty_a_second(service: Served) -> None:
    taken = {}
    with httpx.Client(base_url=service.url, timeout=120) as client, ThreadPoolExecutor(CLIENTS) as several:
        for path, length in LISTS.items():
            address = f"{NAMESPACE}/{path}"
            assert len(client.get(address).json()) == length
            before = _processor_seconds(service.process.pid)
            answers = list(several.map(client.get, [address] * REQUESTS))
            taken[path] = (_processor_seconds(service.process.pid) - before) / REQUESTS
            assert {answer.status_code for answer in answers} == {200}
    assert max(taken.values()) <= SECONDS_OF_A_LIST, taken


def test_a_list_of_pipelines_takes_its_thread_little(tmp_path: Path) -> None:
    """What threads of their own read of states, once a second whoever asks, is not counted: on a busy machine that is all."""
    _fill(tmp_path)
    taken: list[float] = []
    found: list[tuple[str, str]] = []
    with running(tmp_path) as service:
        for _ in range(REQUESTS):
            before = time.thread_time()
            found = list_texts(service.context, "default", None, 1001)
            taken.append(time.thread_time() - before)
    assert len(found) == PIPELINES
    assert statistics.median(taken) <= SECONDS_OF_A_LIST


def test_memory_is_bounded_with_a_thousand_event_streams(service: Served) -> None:
    before = _megabytes(service.process.pid)
    assert before <= MEGABYTES
    with ExitStack() as opened:
        for _ in range(STREAMS // AT_ONCE):
            _open(opened, int(service.url.rpartition(":")[2]), AT_ONCE)
        time.sleep(3)  # the first events of each, which no one reads
        used = _megabytes(service.process.pid)
    assert used <= MEGABYTES_WITH_STREAMS, f"{used:.0f} MB with {STREAMS} streams, {before:.0f} MB before"


def _open(opened: ExitStack, port: int, count: int) -> None:
    """Open event streams. A service that had no processor for ten seconds refuses some, and says to come again."""
    request = f"GET {NAMESPACE}/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n".encode()
    deadline = time.monotonic() + 300
    while count:
        assert time.monotonic() < deadline
        streams = [
            opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=120)) for _ in range(count)
        ]
        for stream in streams:
            stream.sendall(request)
        count -= sum(b"200 OK" in stream.recv(65536) for stream in streams)
