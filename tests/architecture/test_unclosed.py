"""What our code opens and never closes fails a run, whenever Python collects it; what others open does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.packages import ROOT

_HEAD = """
import gc, socket, subprocess, tempfile, threading
from pathlib import Path

class Cycle:
    pass

def in_thread(kind):
    made = []
    thread = threading.Thread(target=lambda: made.append(kind()))
    thread.start()
    thread.join()
    return made

def leave_open(path, body):
    # The code is in the file `path`, for Python.
    names = {"socket": socket, "subprocess": subprocess, "tempfile": tempfile, "Path": Path, "in_thread": in_thread}
    exec(compile("def opened():\\n    return " + body, path, "exec"), names)
    cycle = Cycle()
    cycle.itself, cycle.opened = cycle, names["opened"]()
    gc.disable()
"""
_TEST = """
def test_{kind}():
    leave_open({path!r}, {body!r})
"""
_OURS = str(ROOT / "plugins" / "sources" / "replicator_source_kafka" / "planted_{}.py")
_LEAKS = {
    "socket": "socket.socket()",
    "one_of_a_pair": "socket.socketpair()[0]",
    "listening_socket": "socket.create_server(('127.0.0.1', 0))",
    "socket_of_a_thread": "in_thread(socket.socket)",
    "text_file": "open('/etc/passwd')",
    "binary_file": "open('/etc/passwd', 'rb')",
    "unbuffered_file": "open('/etc/passwd', 'rb', 0)",
    "path": "Path('/etc/passwd').open()",
    "temporary_file": "tempfile.TemporaryFile()",
    "temporary_folder": "tempfile.TemporaryDirectory()",
    "process": "subprocess.Popen(['sleep', '1'])",
}


def run(folder: Path, path: str, leaks: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """A session of tests, each of which opens something, by code in the file `path`."""
    tests = (_TEST.format(kind=kind, path=path.format(kind), body=body) for kind, body in leaks.items())
    (folder / "test_planted.py").write_text(_HEAD + "".join(tests))
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = default\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.unclosed",
        "-p",
        "no:cacheprovider",
        *arguments,
        str(folder),
    ]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("arguments", [(), ("-n", "1")], ids=["one process", "a worker"])
def test_a_session_fails_that_leaves_something_open(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = run(tmp_path, _OURS, _LEAKS, *arguments)
    assert f"{len(_LEAKS)} passed" in done.stdout, done.stdout
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert [kind for kind in _LEAKS if f"{_OURS.format(kind)}:2 in opened" not in done.stdout] == []


@pytest.mark.parametrize("path", ["/usr/lib/python3/elsewhere_{}.py", str(ROOT / "tests" / "planted_{}.py")])
def test_what_others_leave_open_does_not_fail_it(tmp_path: Path, path: str) -> None:
    done = run(tmp_path, path, _LEAKS)
    assert done.returncode == pytest.ExitCode.OK, done.stdout


def test_what_is_closed_does_not_fail_it(tmp_path: Path) -> None:
    assert run(tmp_path, _OURS, {"socket": "socket.socket().close()"}).returncode == pytest.ExitCode.OK
