"""Log files are added to where they can be, bounded, and readable while they are written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

from replicator_state import ReplicatorDirectory
from replicator_state.log_folder import FILE_BYTES, LogFolder

if TYPE_CHECKING:
    from pathlib import Path

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture(params=["local", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> LogFolder:
    base = str(tmp_path) if request.param == "local" else f"memory://{tmp_path.name}-{tmp_path.parent.name}"
    return ReplicatorDirectory(base, "default", "shop").logs()


def _write(folder: LogFolder, began: datetime, *parts: bytes) -> str:
    name, whole = folder.begin("run", "run1", began), b""
    for part in parts:
        whole += part
        folder.append(name, part, whole)
    return name


def test_what_is_added_follows_what_was_there_also_when_it_is_added_twice(folder: LogFolder) -> None:
    name = _write(folder, START, b"one\n", b"two\n")
    folder.append(name, b"two\n", b"one\ntwo\n")
    assert folder.read(name) == b"one\ntwo\n"
    assert [(file.name, file.size, file.run_id, file.began) for file in folder.files("run")] == [
        (name, 8, "run1", START)
    ]


def test_a_file_that_is_gone_meanwhile_is_written_as_a_whole(folder: LogFolder) -> None:
    name = _write(folder, START, b"one\n")
    cast("Any", folder)._folder.remove(name)
    folder.append(name, b"two\n", b"one\ntwo\n")
    assert folder.read(name) == b"one\ntwo\n"


def test_the_oldest_files_beyond_the_bytes_or_the_days_are_deleted(folder: LogFolder) -> None:
    names = [_write(folder, START + timedelta(hours=hour), b"x" * 1000) for hour in range(6)]
    folder.prune("run", FILE_BYTES + 4500, START - timedelta(days=1))
    assert [file.name for file in folder.files("run")] == names[2:]
    folder.prune("run", 2 * FILE_BYTES, START + timedelta(hours=4, minutes=1))
    assert [file.name for file in folder.files("run")] == names[4:], "the fifth was written to until the last began"


def test_a_file_that_is_gone_reads_as_empty_and_strange_files_are_left_alone(folder: LogFolder) -> None:
    assert folder.files("run") == []
    assert folder.read("run-20260301T120000000000Z-r.log") == b""
    cast("Any", folder)._folder.replace("run-notes.txt", b"mine")
    folder.prune("run", 0, datetime.now(UTC))
    assert cast("Any", folder)._folder.names() == ["run-notes.txt"]


def test_no_one_else_may_read_them(tmp_path: Path) -> None:
    folder = ReplicatorDirectory(str(tmp_path), "default", "shop").logs()
    name = _write(folder, START, b"one\n")
    assert (tmp_path / "default" / "shop" / "logs" / name).stat().st_mode & 0o777 == 0o600
