"""Answers as a Kubernetes API server does, for the requests that the launcher of Jobs makes.

It is a recorded contract, not a server: paths, methods, statuses and content types are those of the API's documentation, and
each body has to be one that the official client's models (made from Kubernetes' OpenAPI document) read without losing a key.
No Job is run; a test says what happens to it.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kubernetes import client

_PATH = re.compile(
    r"/(?:api/v1|apis/batch/v1)/namespaces/(?P<namespace>[a-z0-9-]+)/(?P<kind>jobs|secrets|pods)(?:/(?P<name>[a-z0-9.-]+))?"
)
_MODELS = {"jobs": client.V1Job, "secrets": client.V1Secret}
_KINDS = {"jobs": "Job", "secrets": "Secret", "pods": "Pod"}


class ApiServer(ThreadingHTTPServer):
    """A server on the loopback.

    Attributes:
        objects: What is stored, by kind and name.
        requests: Method and path of each request.
        faults: What was wrong with requests.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, dict[str, Any]] = {"jobs": {}, "secrets": {}, "pods": {}}
        self.requests: list[str] = []
        self.faults: list[str] = []

    @property
    def client(self) -> client.ApiClient:
        """A client of it."""
        return client.ApiClient(client.Configuration(host=f"http://127.0.0.1:{self.server_address[1]}"))

    def end_pod(self, job: str, exit_code: int) -> None:
        """The Job's only pod has ended, and the Job with it."""
        terminated = {"exitCode": exit_code, "reason": "Error"}
        self.objects["pods"][f"{job}-x"] = {
            "metadata": {
                "name": f"{job}-x",
                "labels": self.objects["jobs"][job]["spec"]["template"]["metadata"]["labels"],
            },
            "spec": {"containers": [{"name": "replicator"}]},
            "status": {
                "phase": "Failed" if exit_code else "Succeeded",
                "containerStatuses": [
                    {
                        "name": "replicator",
                        "image": "i",
                        "imageID": "",
                        "ready": False,
                        "restartCount": 0,
                        "state": {"terminated": terminated},
                    }
                ],
            },
        }
        kind = "Failed" if exit_code else "Complete"
        at = "2026-01-01T00:00:00Z"
        self.objects["jobs"][job]["status"] = {
            "succeeded": int(not exit_code),
            "failed": int(bool(exit_code)),
            "conditions": [{"type": kind, "status": "True", "lastTransitionTime": at}],
        }


class _Handler(BaseHTTPRequestHandler):
    server: ApiServer

    def do_GET(self) -> None:
        kind, name, query = self._about()
        found = self.server.objects[kind]
        if name is not None:
            self._answer(200, found[name]) if name in found else self._missing()
            return
        chosen = dict(one.split("=") for one in query.get("labelSelector", [""])[0].split(",") if one)
        items = [one for one in found.values() if chosen.items() <= one["metadata"]["labels"].items()]
        self._answer(200, {"kind": f"{_KINDS[kind]}List", "metadata": {}, "items": items})

    def do_POST(self) -> None:
        kind, _, _ = self._about()
        body = self._body()
        read = _MODELS[kind].from_dict(body).to_dict(serialize=True)
        if not _contains(read, body):
            self.server.faults.append(f"a {kind} body has what the model does not: {body}")
        name = body["metadata"]["name"]
        if name in self.server.objects[kind]:
            self._answer(409, {"kind": "Status", "status": "Failure", "reason": "AlreadyExists", "code": 409})
            return
        self.server.objects[kind][name] = {"status": {}, **body} if kind == "jobs" else body
        self._answer(201, self.server.objects[kind][name])

    def do_PATCH(self) -> None:
        kind, name, _ = self._about()
        if "patch+json" not in self.headers["Content-Type"]:
            self.server.faults.append(f"a patch of the type {self.headers['Content-Type']}")
        found = self.server.objects[kind].get(name or "")
        body = self._body()
        if found is None:
            self._missing()
            return
        found["spec"].update(body["spec"])
        self._answer(200, found)

    def do_DELETE(self) -> None:
        kind, name, query = self._about()
        self._body()
        if name is None:
            self.server.objects[kind].clear()
        elif self.server.objects[kind].pop(name, None) is None:
            self._missing()
            return
        if kind == "jobs" and query.get("propagationPolicy") not in (["Background"], ["Foreground"]):
            self.server.faults.append("a Job is deleted, and its pods are left")
        self._answer(200, {"kind": "Status", "status": "Success"})

    def _about(self) -> tuple[str, str | None, dict[str, list[str]]]:
        address = urlsplit(self.path)
        matched = _PATH.fullmatch(address.path)
        self.server.requests.append(f"{self.command} {address.path}")
        if matched is None:
            self.server.faults.append(f"no such path: {address.path}")
            return "jobs", "none", {}
        return matched["kind"], matched["name"], parse_qs(address.query)

    def _body(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        return found

    def _missing(self) -> None:
        self._answer(404, {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


def _contains(whole: Any, part: Any) -> bool:
    """Whether a JSON value has all that another one has."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(key in whole and _contains(whole[key], part[key]) for key in part)
    if isinstance(part, list):
        same = isinstance(whole, list) and len(whole) == len(part)
        return same and all(_contains(one, two) for one, two in zip(whole, part, strict=True))
    return bool(whole == part)


@contextmanager
def api_server() -> Iterator[ApiServer]:
    """A server that answers until the end of the block.

    Raises:
        AssertionError: When a request broke the contract.
    """
    with ApiServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
        assert server.faults == []
