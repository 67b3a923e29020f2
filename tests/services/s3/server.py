"""Starts the S3 server and plans its faults."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
import uuid
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.services.processes import LOOPBACK, accepts_connections, free_port, scratch_folder, spawn, stop, wait_until
from tests.services.s3.setup import python

_PROGRAM = Path(__file__).with_name("server_program.py")
_READY_SECONDS = 180.0


@dataclass(frozen=True)
class Fault:
    """What goes wrong with requests that match.

    Attributes:
        method: `PUT`, `GET`, …; every one when empty.
        path: A regular expression that is found in path and query.
        times: How many requests meet it.
        status: The status with which they are refused: 500, 503 (SlowDown) or 403; 0 lets them through.
        seconds: How late they are worked on.
        lose_answer: Whether they are carried out and the connection is then reset.
        ignore_condition: Whether `If-None-Match` is ignored, as some look-alikes of S3 do.
        held: Whether they are worked on only after `release`.
    """

    method: str = ""
    path: str = ""
    times: int = 1
    status: int = 0
    seconds: float = 0.0
    lose_answer: bool = False
    ignore_condition: bool = False
    held: bool = False


@dataclass
class S3Server:
    """The server, running.

    Attributes:
        port: Where it listens.
    """

    port: int
    _process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What makes the clients of a process, s3fs and pyarrow, use it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
        }

    def bucket(self) -> str:
        """A new bucket."""
        name = f"test-{uuid.uuid4().hex[:12]}"
        self._ask("PUT", f"/{name}")
        return name

    def plan(self, *faults: Fault) -> None:
        """Have the next requests that match meet these."""
        self._ask("POST", "/-/faults", json.dumps([asdict(fault) for fault in faults]).encode())

    def let_chance(self, seed: int, often: float, most: int = 2) -> None:
        """Have requests meet faults at random, until `clear`: refused, throttled, late, the answer lost, slow lists.

        Args:
            seed: Of all choices.
            often: The part of the requests that meets a fault.
            most: How many faults in a row one request meets at most.
        """
        self._ask("POST", "/-/chance", json.dumps({"seed": seed, "often": often, "most": most}).encode())

    @property
    def met(self) -> dict[str, int]:
        """Kind and method of the random faults → how often they were met."""
        met: dict[str, int] = json.loads(self._ask("GET", "/-/met"))
        return met

    @property
    def reader(self) -> dict[str, str]:
        """Options with which deltalake reads tables there, without random faults."""
        return {
            "AWS_ALLOW_HTTP": "true",
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "user_agent": "test-reader",
        }

    @property
    def held(self) -> int:
        """How many requests wait for `release`."""
        return int(json.loads(self._ask("GET", "/-/held")))

    def release(self) -> None:
        """Have requests that are held go on."""
        self._ask("POST", "/-/release")

    def clear(self) -> None:
        """Forget faults and past requests."""
        self._ask("POST", "/-/clear")

    def requests(self, method: str = "", path: str = "") -> list[tuple[str, int]]:
        """Path and status of the requests of a method whose path and query match, in the order of their answers."""
        arrived: list[list[Any]] = json.loads(self._ask("GET", "/-/requests"))
        return [(p, s) for m, p, s in arrived if method in {m, ""} and re.search(path, p)]

    def stop(self) -> None:
        """Ends it, where it was started here."""
        if self._process:
            stop(self._process)

    def _ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        request = urllib.request.Request(f"{self.endpoint}{path}", body, method=method)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return bytes(answer.read())


def start() -> S3Server:
    """Starts it on a free port, without buckets."""
    port, log = free_port(), scratch_folder("s3") / "server.log"
    process = spawn([python(), _PROGRAM, str(port)], log=log)
    wait_until(partial(accepts_connections, port), process=process, log=log, seconds=_READY_SECONDS)
    return S3Server(port, process)
