"""The file systems every claim about state is checked on."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from replicator_state import ReplicatorDirectory
from replicator_state.storage.folder import Folder
from replicator_state.storage.local_folder import LocalFolder
from tests.state import stores

assert stores.PlainFileSystem.protocol == "plain"


@pytest.fixture(params=["local", "memory", "plain", "lying", "s3"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A base path on each kind of file system: local, exclusive, not exclusive, one that claims to be, and a real server."""
    if request.param == "s3":
        return f"s3://{request.getfixturevalue('s3_bucket')}/state"
    return str(tmp_path) if request.param == "local" else f"{request.param}://{uuid.uuid4().hex}"


@pytest.fixture
def directory(base: str) -> ReplicatorDirectory:
    """A replicator's directory that gives up on faults at once."""
    return ReplicatorDirectory(base, "default", "shop", retry_seconds=0)


@pytest.fixture
def folder(directory: ReplicatorDirectory) -> Folder:
    """The folder of `directory`, for tests that look into it or damage it."""
    return directory._generation_folder()


@pytest.fixture
def local(tmp_path: Path) -> LocalFolder:
    """A folder on disk."""
    return LocalFolder(tmp_path / "default" / "shop" / "1")
