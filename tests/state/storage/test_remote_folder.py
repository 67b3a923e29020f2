"""What a file system promises is found out, not believed."""

from __future__ import annotations

import uuid

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from replicator_state.storage.folder import create_once
from replicator_state.storage.remote_folder import RemoteFolder
from tests.state.stores import LyingFileSystem, PlainFileSystem


def _folder(kind: type[MemoryFileSystem]) -> RemoteFolder:
    return RemoteFolder(kind(), f"/{uuid.uuid4().hex}/a", "test")


@pytest.mark.parametrize(
    ("kind", "exclusive"), [(MemoryFileSystem, True), (PlainFileSystem, False), (LyingFileSystem, False)]
)
def test_exclusive_creation_is_used_only_where_a_probe_proves_it(
    kind: type[MemoryFileSystem], *, exclusive: bool
) -> None:
    folder = _folder(kind)
    assert folder.exclusive is exclusive
    assert folder.names() == [], "the probe leaves nothing"


@pytest.mark.parametrize("kind", [MemoryFileSystem, PlainFileSystem, LyingFileSystem])
def test_creating_a_taken_name_fails_and_changes_nothing(kind: type[MemoryFileSystem]) -> None:
    folder = _folder(kind)
    folder.create("a", b"1")
    with pytest.raises(FileExistsError):
        folder.create("a", b"2")
    with pytest.raises(FileExistsError):
        create_once(folder, "a", b"2")
    create_once(folder, "a", b"1")
    assert folder.read("a") == b"1"


@pytest.mark.parametrize("kind", [MemoryFileSystem, PlainFileSystem])
def test_a_write_that_another_one_overtook_is_noticed(kind: type[MemoryFileSystem]) -> None:
    folder = _folder(kind)
    fs = folder._fs
    original = type(fs).pipe_file

    def overtaken(path: str, value: bytes, **options: object) -> None:
        original(fs, path, b"rival")
        original(fs, path, value, **options)
        original(fs, path, b"rival")

    _ = folder.exclusive
    fs.pipe_file = overtaken
    try:
        with pytest.raises(FileExistsError):
            folder.create("a", b"mine")
    finally:
        del fs.pipe_file
    assert folder.read("a") == b"rival"


def test_files_and_folders_are_distinguished_and_absent_ones_are_empty() -> None:
    folder = _folder(MemoryFileSystem)
    assert (folder.names(), folder.folders(), folder.exists("a")) == ([], [], False)
    folder.replace("a", b"1")
    RemoteFolder(folder._fs, f"{folder._path}/sub", "test").replace("b", b"2")
    assert (folder.names(), folder.folders(), folder.exists("a")) == (["a"], ["sub"], True)
    folder.remove("a")
    folder.remove("a")
    with pytest.raises(FileNotFoundError):
        folder.read("a")
