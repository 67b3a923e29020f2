"""What `make setup` and `make servers` fetch is what was pinned, and what demo and tests need."""

from __future__ import annotations

import dataclasses
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from replicator_sdk.testing.contexts import CollectingConfigurer
from replicator_target_delta.config import DeltaConfig
from replicator_target_delta.plugin import DeltaLakeTarget
from tests.services import artifacts
from tests.services.artifacts import DELTA, ArtifactError, cache_folder, fetch


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A Maven repository on loopback, made of files in the returned folder, and an empty cache."""
    root = tmp_path / "repository"
    root.mkdir()

    class Files(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments, directory=str(root))  # type: ignore[arg-type]

        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(artifacts, "REPOSITORY", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        yield root
        server.shutdown()


def _publish(repository: Path, content: bytes) -> None:
    jar = repository / DELTA[0].path
    jar.parent.mkdir(parents=True)
    jar.write_bytes(content)


def test_another_file_than_the_pinned_one_is_refused_and_not_kept(repository: Path) -> None:
    _publish(repository, b"something else")
    with pytest.raises(ArtifactError, match="SHA-256"):
        fetch(DELTA[0])
    assert [path for path in cache_folder().rglob("*") if path.is_file()] == []


def test_a_pinned_file_is_fetched_once(repository: Path) -> None:
    _publish(repository, b"")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    artifact = dataclasses.replace(DELTA[0], sha256=empty)
    first = fetch(artifact)
    (repository / artifact.path).unlink()
    assert fetch(artifact) == first
    assert first == cache_folder() / "maven" / artifact.path


def test_a_missing_artifact_names_its_address(repository: Path) -> None:
    assert repository.is_dir()
    with pytest.raises(ArtifactError, match=r"http://127.0.0.1:\d+/io/delta/.*: HTTP 404"):
        fetch(DELTA[0])


def test_setup_fetches_every_jar_the_delta_target_asks_spark_for(tmp_path: Path) -> None:
    """Else the first session of a demo would resolve packages over the network."""
    configurer = CollectingConfigurer()
    DeltaLakeTarget(DeltaConfig.model_validate({"path": str(tmp_path)})).configure(configurer)
    fetched = {f"{artifact.group}:{artifact.name}:{artifact.version}" for artifact in DELTA}
    assert set(configurer.packages) == fetched
