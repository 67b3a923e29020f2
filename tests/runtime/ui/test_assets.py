"""How the page's files are served."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from replicator_runtime.service.application import create_application
from replicator_runtime.service.settings import Auth, ServiceSettings
from replicator_runtime.ui.assets import STATIC, page

VENDORED = json.loads((STATIC / "vendor" / "VENDORED.json").read_text("utf-8"))["files"]


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    """A client of a service that is not started: the page needs none of what starts."""
    settings = ServiceSettings("sqlite://", str(tmp_path), tmp_path, auth=Auth.NONE)
    return TestClient(create_application(settings), base_url="http://127.0.0.1:11015")


@pytest.mark.parametrize("entry", VENDORED, ids=lambda entry: str(entry["file"]))
def test_vendored_file_is_the_published_one(entry: dict[str, str]) -> None:
    content = (STATIC / "vendor" / entry["file"]).read_bytes()
    assert hashlib.sha256(content).hexdigest() == entry["sha256"]
    assert "Copyright" in (STATIC / "vendor" / entry["licenceFile"]).read_text("utf-8")


def test_every_vendored_file_is_listed() -> None:
    found = {path.name for path in (STATIC / "vendor").iterdir() if path.is_file()}
    assert found == {entry["file"] for entry in VENDORED} | {"VENDORED.json"}


def test_document_runs_only_files_of_the_service(client: TestClient) -> None:
    response = client.get("/ns/default/pipelines")
    policy = response.headers["content-security-policy"]
    inline = re.findall(r"<script type=\"importmap\">(.*?)</script>", response.text)
    assert len(inline) == 1
    digest = base64.b64encode(hashlib.sha256(inline[0].encode()).digest()).decode()
    assert f"script-src 'self' 'sha256-{digest}';" in policy
    assert "default-src 'none'" in policy
    assert "require-trusted-types-for 'script'; trusted-types 'none'" in policy
    assert "unsafe" not in policy
    assert not re.findall(r"(?:src|href)=\"(?!/static/)", response.text)


def test_document_is_asked_for_each_time_and_sent_when_it_changed(client: TestClient) -> None:
    response = client.get("/")
    assert response.headers["cache-control"] == "no-cache"
    again = client.get("/", headers={"If-None-Match": response.headers["etag"]})
    assert again.status_code == 304
    assert again.content == b""


def test_file_is_kept_for_a_year_below_its_checksum(client: TestClient) -> None:
    address = f"/static/{page().checksum}/core/start.js"
    response = client.get(address)
    assert response.headers["content-type"] == "text/javascript; charset=utf-8"
    assert "immutable" in response.headers["cache-control"]
    assert client.get("/static/0123456789abcdef0123/core/start.js").status_code == 404


@pytest.mark.parametrize("name", ["../assets.py", "%2e%2e/assets.py", "..%2fassets.py", "/etc/passwd", "core/", ""])
def test_nothing_but_files_of_the_page_is_served(client: TestClient, name: str) -> None:
    assert client.get(f"/static/{page().checksum}/{name}").status_code == 404


def test_packed_file_is_the_same_file() -> None:
    packed = [found for found in page().assets.values() if found.packed is not None]
    assert packed
    assert [found for found in packed if gzip.decompress(found.packed or b"") != found.content] == []
