"""A socket, file, connection, process or temporary folder that our code opens and never closes fails the run.

Python finds it when the object is collected, perhaps during another test. So each is noted when it is opened, with the places
of the code that opened it, and what was found is reported at the end of the session.
"""

from __future__ import annotations

import builtins
import functools
import gc
import io
import re
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
OURS = tuple(f"{ROOT / folder}/" for folder in ("sdk", "state", "runtime", "plugins"))
# Spark's connections to Java are kept in a pool of Py4J's, which drops them without closing.
_POOLED = re.compile(r"/site-packages/(py4j|pyspark)/")
_STANDARD = sysconfig.get_path("stdlib") + "/"
_FRAMES = 60
_STARTED_AT = "_replicator_started_at"

Place = tuple[str, int, str]

_opened: dict[int | str, tuple[Place, ...]] = {}
_found: dict[str, None] = {}


def places() -> Iterator[Place]:
    """Where the program is, the innermost call first; then where the thread was started, and so on."""
    frame = sys._getframe(1)
    for _ in range(_FRAMES):
        if frame.f_back is None:
            break
        frame = frame.f_back
        yield frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
    yield from getattr(threading.current_thread(), _STARTED_AT, ())


def is_ours(stack: tuple[Place, ...]) -> bool:
    """Whether our code opened something: itself, or through a library that leaves the closing to us."""
    outside = [path for path, _, _ in stack if path != __file__ and not _is_standard(path)]
    return any(path.startswith(OURS) for path in outside) and not _POOLED.search(outside[0])


def _is_standard(path: str) -> bool:
    return path.startswith("<") or (path.startswith(_STANDARD) and "-packages/" not in path)


def note(*keys: int | str) -> None:
    """Keep, or forget, who opened the object with these keys: its address or its text."""
    stack = tuple(places())
    for key in keys:
        if is_ours(stack):
            _opened[key] = stack
        else:
            _opened.pop(key, None)


def found(message: str, source: object) -> None:
    """Keep a warning if it is of something that our code opened."""
    addresses = [int(text, 16) for text in re.findall(r" at 0x([0-9a-f]+)", message)]
    texts = [key for key in _opened if isinstance(key, str) and key in message]
    keys: list[int | str] = [id(source), *addresses, *texts]
    for key in keys:
        if stack := _opened.get(key):
            lines = "".join(f"\n    {path}:{line} in {name}" for path, line, name in stack if not _is_standard(path))
            _found[f"{message}, opened at{lines}"] = None
            return


def watch() -> None:
    """Note what is opened from now on."""
    _after(socket.socket, lambda opened: [id(opened)])
    _after(subprocess.Popen, lambda opened: [id(opened)])
    _after(tempfile.TemporaryDirectory, lambda opened: [repr(opened)])
    try:
        import psycopg
    except ImportError:
        pass
    else:
        _after(psycopg.BaseConnection, lambda opened: [id(opened)])
    _follow_threads()
    _follow_files()


def _follow_threads() -> None:
    start = threading.Thread.start

    @functools.wraps(start)
    def started(self: threading.Thread) -> None:
        setattr(self, _STARTED_AT, tuple(places())[: 2 * _FRAMES])
        start(self)

    threading.Thread.start = started  # type: ignore[method-assign]


def _follow_files() -> None:
    original = io.open

    @functools.wraps(original)
    def noted(*arguments: Any, **settings: Any) -> Any:
        opened = original(*arguments, **settings)
        layers = [opened, getattr(opened, "buffer", None), getattr(opened, "raw", None)]
        layers.append(getattr(layers[1], "raw", None))
        note(*(id(layer) for layer in layers if layer is not None))
        return opened

    for module in (io, builtins):
        module.open = noted  # type: ignore[attr-defined]


def _after(kind: Any, keys: Callable[[Any], list[int | str]]) -> None:
    original = kind.__init__

    @functools.wraps(original)
    def initialise(self: Any, *arguments: Any, **settings: Any) -> None:
        original(self, *arguments, **settings)
        note(*keys(self))

    kind.__init__ = initialise


def pytest_configure(config: pytest.Config) -> None:
    """Begin to watch, and see every warning."""
    config.addinivalue_line("filterwarnings", "always::ResourceWarning")
    watch()


def pytest_warning_recorded(warning_message: warnings.WarningMessage) -> None:
    """Look at a warning of this process."""
    if issubclass(warning_message.category, ResourceWarning):
        found(str(warning_message.message), warning_message.source)


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Any:
    """Collect what is left when all fixtures have ended; a worker sends what was found."""
    result = yield
    with warnings.catch_warnings(record=True) as left:
        warnings.simplefilter("always")
        gc.collect()
    for warning in left:
        pytest_warning_recorded(warning)
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["unclosed"] = list(_found)
    elif _found and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    return result


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a worker found."""
    _found.update(dict.fromkeys(getattr(node, "workeroutput", {}).get("unclosed", ())))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was found."""
    if _found:
        terminalreporter.section("opened by our code and never closed", red=True)
        for line in _found:
            terminalreporter.write_line(line)
