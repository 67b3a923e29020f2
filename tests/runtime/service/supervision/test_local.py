"""What the launcher of local processes may do with a process that it did not start itself."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from replicator_runtime.service.supervision import keeper
from replicator_runtime.service.supervision.launcher import Order, Presence
from replicator_runtime.service.supervision.local import LocalLauncher
from replicator_runtime.service.supervision.process import start_of
from tests.runtime.service.supervision.supervised import lives
from tests.waits import until


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[LocalLauncher]:
    """Starts a command that writes a file."""
    made = LocalLauncher(tmp_path, [sys.executable, "-I", "-S", "-c", "import sys; open(sys.argv[-1], 'w').close()"])
    yield made
    made.close()


def order(file: Path) -> Order:
    """An order to write a file."""
    return Order("default", "shop", "1", ["run"], "{}", file, 30.0)


def test_a_process_that_was_refused_never_begins(launcher: LocalLauncher, tmp_path: Path) -> None:
    """As one whose service was killed before it began, and that another service has given up."""
    place = launcher.place("1")
    assert launcher.refuse(place).presence is Presence.ENDED
    launcher.start(place, order(tmp_path / "written"))
    descriptor = launcher.descriptor(place)
    assert descriptor is not None
    until(lambda: launcher.look_again_seconds(place) < 1, "the keeper has ended")
    assert not (tmp_path / "written").exists()
    launcher.release(place)


def test_a_place_has_one_process_however_often_it_is_started(launcher: LocalLauncher, tmp_path: Path) -> None:
    place = launcher.place("1")
    launcher.start(place, order(tmp_path / "written"))
    until(lambda: launcher.look(place).presence is Presence.ENDED, "it has ended")
    assert launcher.look(place).exit_code == 0
    (tmp_path / "written").unlink()
    launcher.start(place, order(tmp_path / "written"))
    until(lambda: launcher.look_again_seconds(place) < 1, "the keeper has ended")
    assert not (tmp_path / "written").exists()
    launcher.release(place)


@pytest.mark.parametrize("other", ["started", "boot", "space"])
def test_a_process_that_has_got_the_number_of_another_is_never_signalled(
    other: str, launcher: LocalLauncher, tmp_path: Path
) -> None:
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        place, here = launcher.place("1"), keeper.identity()
        known = {**here, "pid": stranger.pid, "started": start_of(stranger.pid)}
        changed: dict[str, object] = {
            "started": (start_of(stranger.pid) or 0) - 1,
            "boot": "before",
            "space": "pid:[1]",
        }
        (tmp_path / "1").mkdir()
        (tmp_path / "1" / keeper.PROCESS).write_text(json.dumps({**known, other: changed[other]}))
        launcher.stop(place)
        launcher.kill(place)
        assert launcher.look(place).presence is Presence.ENDED
        assert lives(stranger.pid)
        assert stranger.communicate(b"\n")
        assert stranger.returncode == 0


def test_a_process_of_another_host_is_left_alone(launcher: LocalLauncher, tmp_path: Path) -> None:
    place = json.dumps({"host": "far.example", "folder": "/no/such/folder"})
    found = launcher.refuse(place)
    assert found.presence is Presence.ELSEWHERE
    assert "far.example" in found.detail
    launcher.stop(place)
    launcher.forget(place)


def test_what_cannot_be_seen_now_is_not_taken_for_an_end(
    launcher: LocalLauncher, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A second process would begin beside the first one."""
    place = launcher.place("01")
    folder = Path(json.loads(place)["folder"])
    folder.mkdir(parents=True)
    (folder / keeper.PROCESS).write_text("{}")

    def open_nothing(*_: object) -> int:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(os, "open", open_nothing)
    with pytest.raises(OSError, match="too many"):
        launcher.look(place)
