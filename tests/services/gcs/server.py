"""Starts fake-gcs-server with a gate before it that is as strict about conditions as Cloud Storage, and as unreliable as asked.

The server asks `ifGenerationMatch=0` only of an upload in one request of several parts, as gcsfs sends a small object; one of the content
alone, and one that is resumed, it takes and overwrites. The gate answers 412 to these where the object exists. Requests that
write are carried out one at a time, so that a condition and its write are one step.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import threading
import uuid
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, quote, unquote, urlsplit

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.services.artifacts import CLOUD_STORAGE, fetch
from tests.services.gcs.setup import program
from tests.services.http_gate import Answer, HttpGate, Request
from tests.services.processes import LOOPBACK, accepts_connections, free_port, scratch_folder, spawn, stop, wait_until

_READY_SECONDS = 180.0
_UPLOAD = re.compile(r"/upload/storage/v1/b/([^/?]+)/o")
_NAME = re.compile(rb'"name": ?("(?:[^"\\]|\\.)*")')
_JSON: Final = [("Content-Type", "application/json")]


class GcsServer(HttpGate):
    """The server and its gate, running.

    Attributes:
        ignores_conditions: Whether conditions are left out, as a server does that ignores them.
        port: The server's own, without the gate.
    """

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.port, self.ignores_conditions = port, False
        self._resumed: dict[str, tuple[str, str]] = {}  # conditional uploads that have begun, by their identity
        self._writes = threading.Lock()
        folder = scratch_folder("gcs")
        log, self._key = folder / "server.log", _service_account(folder)
        addresses = ("-host", LOOPBACK, "-port", str(port), "-public-host", f"{LOOPBACK}:{port}")
        chosen = ("-backend", "memory", "-scheme", "http", "-log-level", "error")
        self._process: subprocess.Popen[bytes] = spawn([program(), *addresses, *chosen], log=log)
        wait_until(partial(accepts_connections, port), process=self._process, log=log, seconds=_READY_SECONDS)

    @property
    def environment(self) -> dict[str, str]:
        """What makes gcsfs and pyarrow in a process use it: over HTTP only, the one without credentials, the other with a key that it signs with."""
        return {
            "CLOUD_STORAGE_EMULATOR_ENDPOINT": f"http://{self.address}",
            "GOOGLE_APPLICATION_CREDENTIALS": str(self._key),
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
        """Path and object: the path of an upload need not have the object."""
        return f"{unquote(request.path)} {_object(request)}"

    def refused(self, status: int) -> Answer:
        """See `HttpGate.refused`."""
        return _error(status, "as planned")

    def answer(self, request: Request) -> Answer:
        """See `HttpGate.answer`."""
        if request.method == "GET":
            return super().answer(request)
        with self._writes:
            if self.ignores_conditions:
                return self._begun(super().answer(self._without_condition(request)), None)
            begun = self._conditional(request)
            if begun is not None and self._exists(*begun):
                return _error(412, "conditionNotMet")
            return self._begun(super().answer(request), begun)

    def _begun(self, answer: Answer, created: tuple[str, str] | None) -> Answer:
        """The answer to the beginning of an upload, which goes on through the gate and has its condition until its end."""
        status, headers, content = answer
        address = dict(headers).get("Location", "")
        if address and created is not None:
            self._resumed[_query(address, "upload_id")] = created
        through = address.replace(f"{LOOPBACK}:{self.port}", self.address)
        return status, [(name, through if name == "Location" else value) for name, value in headers], content

    def _conditional(self, request: Request) -> tuple[str, str] | None:
        """Bucket and object that the request creates, or goes on to create, only where there is none; None for others."""
        found = _UPLOAD.match(request.path)
        if found is not None and _query(request.path, "ifGenerationMatch") == "0":
            return unquote(found[1]), _object(request)
        return self._resumed.get(_query(request.path, "upload_id"))

    def _exists(self, bucket: str, name: str) -> bool:
        return self.forward("GET", f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}", b"", _JSON)[0] == 200

    @staticmethod
    def _without_condition(request: Request) -> Request:
        path = re.sub(r"ifGenerationMatch=0&?", "", request.path)
        return Request(request.method, path, request.headers, request.content)


def spark_settings(address: str) -> dict[str, str]:
    """What Spark needs to open gs:// on the server that has its gate there, with `spark.jars` for Google's connector alone."""
    connector = {
        "storage.root.url": f"http://{address}/",
        "auth.service.account.enable": "false",
        "auth.null.enable": "true",
        "project.id": "test",
    }
    settings = {f"spark.hadoop.fs.gs.{name}": value for name, value in connector.items()}
    return {"spark.jars": str(fetch(CLOUD_STORAGE)), **settings}


def start() -> GcsServer:
    """Starts both on free ports, without buckets of tests; nothing is kept on disk."""
    return GcsServer(free_port())


def _service_account(folder: Path) -> Path:
    """A file with the key of an account, which signs without asking Google."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    account = {
        "type": "service_account",
        "project_id": "test",
        "private_key_id": "1",
        "private_key": text,
        "client_email": "test@test.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": f"http://{LOOPBACK}:1/",
    }
    file = folder / "account.json"
    file.write_text(json.dumps(account))
    return file


def reader(port: int) -> dict[str, str]:
    """Options with which deltalake reads tables on the server of that port, past the gate."""
    account = {
        "gcs_base_url": f"http://{LOOPBACK}:{port}",
        "disable_oauth": True,
        "client_email": "",
        "private_key": "",
    }
    return {"google_service_account_key": json.dumps({**account, "private_key_id": ""}), "allow_http": "true"}


def _object(request: Request) -> str:
    """The name of the object that an upload has in its path or its first part; empty for other requests."""
    if _UPLOAD.match(request.path) is None:
        return ""
    if named := _query(request.path, "name"):
        return named
    content = request.content
    found = _NAME.search((gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content)[:4096])
    return str(json.loads(found[1])) if found else ""


def _query(path: str, name: str) -> str:
    return parse_qs(urlsplit(path).query).get(name, [""])[0]


def _error(status: int, reason: str) -> Answer:
    error = {"code": status, "message": reason, "errors": [{"reason": reason, "message": reason, "domain": "global"}]}
    return status, _JSON, json.dumps({"error": error}).encode()
