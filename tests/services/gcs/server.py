"""Starts an emulator of Cloud Storage with a gate before it that is as strict about conditions as Cloud Storage, and as unreliable as asked.

The emulator takes `ifGenerationMatch=0` and ignores it; the gate answers 412 where the object exists. Requests that write are
carried out one at a time, so that a condition and its write are one step.
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
import uuid
from functools import partial
from urllib.parse import parse_qs, quote, urlsplit

from tests.services.bigquery.setup import program
from tests.services.http_gate import Answer, HttpGate, Request
from tests.services.processes import LOOPBACK, accepts_connections, free_port, scratch_folder, spawn, stop, wait_until

_READY_SECONDS = 180.0
_UPLOAD = re.compile(r"/upload/storage/v1/b/([^/?]+)/o")
_NAME = re.compile(rb'"name": ("(?:[^"\\]|\\.)*")')
_JSON = [("Content-Type", "application/json")]


class GcsServer(HttpGate):
    """The emulator and its gate, running.

    Attributes:
        ignores_conditions: Whether conditions are passed on to the emulator, which ignores them.
    """

    def __init__(self, emulator_port: int, process: subprocess.Popen[bytes]) -> None:
        super().__init__(emulator_port)
        self.ignores_conditions = False
        self._process, self._writes = process, threading.Lock()

    @property
    def environment(self) -> dict[str, str]:
        """What makes gcsfs in a process use it, over HTTP only and without credentials."""
        return {
            "STORAGE_EMULATOR_HOST": f"http://{self.address}",
            "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
            "FSSPEC_GS_TOKEN": "anon",
        }

    def bucket(self) -> str:
        """A new bucket."""
        name = f"test-{uuid.uuid4().hex[:12]}"
        status, _, _ = self.forward("POST", "/storage/v1/b?project=test", json.dumps({"name": name}).encode(), _JSON)
        assert status == 200
        return name

    def clear(self) -> None:
        """See `HttpGate.clear`; conditions hold again."""
        super().clear()
        self.ignores_conditions = False

    def stop(self) -> None:
        """End both."""
        super().stop()
        stop(self._process)

    def named(self, request: Request) -> str:
        """Path and object: the path of an upload has no object."""
        return f"{request.path} {_object(request.content)}"

    def refused(self, status: int) -> Answer:
        """See `HttpGate.refused`."""
        return _error(status, "as planned")

    def answer(self, request: Request) -> Answer:
        """See `HttpGate.answer`."""
        if request.method == "GET":
            return super().answer(request)
        with self._writes:
            taken = not self.ignores_conditions and self._is_taken(request.path, request.content)
            return _error(412, "conditionNotMet") if taken else super().answer(request)

    def _is_taken(self, path: str, content: bytes) -> bool:
        """Whether an object exists that is to be created only where there is none."""
        found = _UPLOAD.match(path)
        if found is None or parse_qs(urlsplit(path).query).get("ifGenerationMatch") != ["0"]:
            return False
        status, _, _ = self.forward("GET", f"/storage/v1/b/{found[1]}/o/{quote(_object(content), safe='')}", b"", _JSON)
        return status == 200


def _object(content: bytes) -> str:
    """The name of the object that an upload has in its first part; empty for other requests."""
    found = _NAME.search(content[:4096])
    return str(json.loads(found[1])) if found else ""


def _error(status: int, reason: str) -> Answer:
    error = {"code": status, "message": reason, "errors": [{"reason": reason, "message": reason, "domain": "global"}]}
    return status, _JSON, json.dumps({"error": error}).encode()


def start() -> GcsServer:
    """Starts both on free ports, without buckets of tests."""
    folder = scratch_folder("gcs")
    port, log = free_port(), folder / "emulator.log"
    chosen = ("--port", str(port), "-H", LOOPBACK, "--default-bucket", "unused")
    process = spawn([program("gcp-storage-emulator"), "-d", folder, "start", *chosen], log=log)
    wait_until(partial(accepts_connections, port), process=process, log=log, seconds=_READY_SECONDS)
    return GcsServer(port, process)
