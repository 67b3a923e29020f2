"""What a service of 500 drafts and 200 pipelines costs, with 1,000 event streams: processor time of each list, and memory."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path

import httpx
import psutil
import pytest

from replicator_runtime.service.store.database import Database
from replicator_runtime.service.store.tables import Draft, Pipeline
from replicator_state import ReplicatorDirectory
from tests.runtime.cli.service.served import Served, served
from tests.runtime.cli.service.test_same_output import config, status

DRAFTS, PIPELINES, STREAMS, TABLES = 500, 200, 1000, 20
MEGABYTES = 150
PER_SECOND = 50
"""Lists that are asked for."""
NAMESPACE = "/v1/contexts/default"
LISTS = {"drafts": DRAFTS, "pipelines": PIPELINES, "connections": 0, "jobs": 0}
CLIENTS, REQUESTS, READINGS, AT_ONCE = 8, 100, 5, 20


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
    """States are read once a second at most, whatever is asked for: what that costs is taken from what each request costs."""
    taken = {}
    with httpx.Client(base_url=service.url, timeout=120) as client, ThreadPoolExecutor(CLIENTS) as several:
        for path, length in LISTS.items():
            address = f"{NAMESPACE}/{path}"
            assert len(client.get(address).json()) == length
            before = _processor_seconds(service.process.pid)
            for _ in range(READINGS):
                time.sleep(1.1)
                client.get(address).raise_for_status()
            with_a_reading = (_processor_seconds(service.process.pid) - before) / READINGS
            before, began = _processor_seconds(service.process.pid), time.monotonic()
            answers = list(several.map(client.get, [address] * REQUESTS))
            spent, passed = _processor_seconds(service.process.pid) - before, time.monotonic() - began
            assert {answer.status_code for answer in answers} == {200}
            readings = min(passed, REQUESTS)
            without = (
                max(0.0, (spent - readings * with_a_reading) / (REQUESTS - readings)) if readings < REQUESTS else 0.0
            )
            taken[path] = PER_SECOND * without + with_a_reading
    assert max(taken.values()) <= 1.0, taken


def test_memory_is_bounded_with_a_thousand_event_streams(service: Served) -> None:
    before = _megabytes(service.process.pid)
    with ExitStack() as opened:
        for _ in range(STREAMS // AT_ONCE):
            _open(opened, int(service.url.rpartition(":")[2]), AT_ONCE)
        time.sleep(3)  # the first events of each, which no one reads
        used = _megabytes(service.process.pid)
    assert used <= MEGABYTES, f"{used:.0f} MB with {STREAMS} streams, {before:.0f} MB before"


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
