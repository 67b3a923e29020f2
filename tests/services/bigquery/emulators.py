"""A BigQuery emulator and a Cloud Storage emulator that share a folder, and the gate in front of BigQuery."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.request
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.services.bigquery.change_ingestion import StreamingServer
from tests.services.bigquery.gate import Gate
from tests.services.bigquery.setup import environment, home, program
from tests.services.bigquery.write_gate import WriteGate
from tests.services.processes import (
    LOOPBACK,
    accepts_connections,
    free_port,
    scratch_folder,
    spawn,
    stop,
    tail,
    wait_until,
)

PROJECT = "test"
BUCKET = "staging"
_READY_SECONDS = 180.0
_PROGRAM = Path(__file__).with_name("emulator_program.py")
# The emulator takes US for everything, whatever is asked.
LOCATION = "US"


@dataclass
class Emulators:
    """Both, running.

    Attributes:
        gate: The gate before BigQuery; clients connect to it.
        write_gate: The gate before the Storage Write API; clients connect to it.
        bigquery_port: Where BigQuery is without the gate.
        storage_port: Where Cloud Storage is.
        streaming: Change ingestion, into BigQuery's tables.
    """

    gate: Gate
    write_gate: WriteGate
    bigquery_port: int
    storage_port: int
    streaming: StreamingServer
    _processes: dict[Path, subprocess.Popen[bytes]]

    @property
    def bigquery_endpoint(self) -> str:
        """BigQuery's address, by the gate."""
        return f"http://{LOOPBACK}:{self.gate.port}"

    @property
    def storage_endpoint(self) -> str:
        """Cloud Storage's address."""
        return f"http://{LOOPBACK}:{self.storage_port}"

    @property
    def write_endpoint(self) -> str:
        """The Storage Write API's address, by its gate."""
        return f"http://{LOOPBACK}:{self.write_gate.port}"

    def ended(self) -> str:
        """What the processes that ended by themselves wrote last; empty while both run."""
        return "\n".join(
            f"{log.stem} ended with {process.returncode}: {tail(log)}"
            for log, process in self._processes.items()
            if process.poll() is not None
        )

    def end(self, how: signal.Signals) -> None:
        """End BigQuery alone, as if it crashed."""
        stop(next(iter(self._processes.values())), how)

    def stop(self) -> None:
        """End both."""
        self.streaming.close()
        self.gate.close()
        self.write_gate.close()
        for process in self._processes.values():
            stop(process)


def start() -> Emulators:
    """Starts both on free ports, with one bucket."""
    folder = scratch_folder("bigquery")
    storage_port, rest, grpc = free_port(), free_port(), free_port()
    storage_log, bigquery_log = folder / "storage.log", folder / "bigquery.log"
    storage = spawn(
        [
            *(program("gcp-storage-emulator"), "-d", folder, "start", "--port", str(storage_port)),
            *("-H", LOOPBACK, "--default-bucket", BUCKET),
        ],
        log=storage_log,
    )
    bigquery = spawn(
        [
            *(program("python"), _PROGRAM, "start", "--rest-port", str(rest), "--grpc-port", str(grpc)),
            *("--project", PROJECT, "--log-level", "warning"),
        ],
        log=bigquery_log,
        environment=home(environment()) | {"BQEMU_GCS_LOCAL_ROOT": str(folder / ".cloudstorage")},
    )
    listeners = ((storage, storage_port, storage_log), (bigquery, rest, bigquery_log), (bigquery, grpc, bigquery_log))
    for process, port, log in listeners:
        wait_until(partial(accepts_connections, port), process=process, log=log, seconds=_READY_SECONDS)
    gate = Gate(rest)
    streaming = StreamingServer(rest, gate.port)
    processes = {bigquery_log: bigquery, storage_log: storage}
    return Emulators(gate, WriteGate(grpc, gate.turn), rest, storage_port, streaming, processes)


def target_settings(emulators: Emulators, dataset: str, **settings: object) -> dict[str, object]:
    """The properties of a target stage that writes to `dataset` there, with further ones."""
    return {
        "project": PROJECT,
        "datasetName": dataset,
        "stagingBucket": BUCKET,
        "stagingBucketLocation": LOCATION,
        "loadInterval": 0,
        "apiEndpoint": emulators.bigquery_endpoint,
        "storageEndpoint": emulators.storage_endpoint,
        "storageWriteEndpoint": emulators.write_endpoint,
        **settings,
    }


def rows(emulators: Emulators, sql: str) -> list[list[object]]:
    """The rows of a query in BigQuery's own JSON, by a client that shares no code with the target or Google's."""
    return [[cell["v"] for cell in row["f"]] for row in _query(emulators, sql).get("rows", ())]


def columns(emulators: Emulators, dataset: str, table: str) -> list[str]:
    """The names of a table's columns by a query's answer: the emulator's `INFORMATION_SCHEMA` never changes after CREATE TABLE."""
    found = _query(emulators, f"SELECT * FROM `{PROJECT}`.`{dataset}`.`{table}` LIMIT 0")
    return [str(field["name"]) for field in found["schema"]["fields"]]


def staged_files(emulators: Emulators) -> list[str]:
    """The names of the replicator's files in the staging bucket."""
    where = f"{emulators.storage_endpoint}/storage/v1/b/{BUCKET}/o?prefix=replicator/&maxResults=1000"
    with urllib.request.urlopen(where, timeout=30) as answer:
        return [item["name"] for item in json.load(answer).get("items", ())]


def _query(emulators: Emulators, sql: str) -> dict[str, Any]:
    body = json.dumps({"query": sql, "useLegacySql": False, "maxResults": 100_000}).encode()
    url = f"http://{LOOPBACK}:{emulators.bigquery_port}/bigquery/v2/projects/{PROJECT}/queries"
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with emulators.gate.turn, urllib.request.urlopen(request, timeout=60) as answer:
        found: dict[str, Any] = json.load(answer)
    return found
