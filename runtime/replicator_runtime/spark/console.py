"""What Spark's Java virtual machine says on the terminal: what a user may have to act on, without the lines of every start.

Spark's own configuration of its log prints five lines at each start that mean nothing to a user. Ours takes its place where the user
has none. One line is Java's own, about a module that Spark asks for; no option of Java leaves it out, so it is taken out of what the
virtual machine writes to its standard error. While a run keeps its log, warnings of Spark go there alone, and all else to both.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

_CONFIGURATION: Final = "log4j2.properties"
_OWN_OPTIONS: Final = ("-Dlog4j2.configurationFile", "-Dlog4j.configurationFile")
_NOISE: Final = (b"WARNING: Using incubator modules: ",)
_SECONDS_FOR_LAST_LINES: Final = 2.0
_SECONDS_TO_KEEP_LAST_LINES: Final = 0.5
_BEGINS: Final = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (?P<level>[A-Z]+) ")
"""A line as our configuration writes it; others belong to the line before them, such as the calls of an error."""
_KEPT_ONLY: Final = frozenset({b"WARN", b"INFO", b"DEBUG", b"TRACE"})
_keep: Callable[[bytes], None] | None = None
_forwarding: threading.Thread | None = None


def log_options(options: str) -> str:
    """Options of the virtual machine with our configuration of its log, unless `options` or Spark's folder of settings have one."""
    if any(own in options for own in _OWN_OPTIONS) or _settings_folder_has_one():
        return options
    return f"{options} -Dlog4j2.configurationFile={(Path(__file__).parent / _CONFIGURATION).as_uri()}".strip()


def _settings_folder_has_one() -> bool:
    home, folder = os.environ.get("SPARK_HOME"), os.environ.get("SPARK_CONF_DIR")
    folder = folder or (home and f"{home}/conf")
    return bool(folder) and Path(str(folder), _CONFIGURATION).exists()


@contextlib.contextmanager
def forwarded_standard_error() -> Iterator[int]:
    """A descriptor for the standard error of the process that is started within the block; its lines appear on ours, without the noise.

    Lines are forwarded for as long as that process lives. When the block raises, those written until then appear before it does.
    """
    global _forwarding  # noqa: PLW0603 - one virtual machine a process
    reading, writing = os.pipe()
    _forwarding = forwarding = threading.Thread(target=_forward, args=(reading,), name="spark-console", daemon=True)
    forwarding.start()
    try:
        yield writing
    except BaseException:
        os.close(writing)
        forwarding.join(_SECONDS_FOR_LAST_LINES)
        raise
    os.close(writing)


@contextlib.contextmanager
def spark_lines_to(keep: Callable[[bytes], None]) -> Iterator[None]:
    """Give every line of the virtual machine to `keep` within the block; those of a level below ERROR do not appear on the terminal.

    Args:
        keep: Called in a thread of this module; must return at once and raise nothing.
    """
    global _keep  # noqa: PLW0603 - one virtual machine a process
    before, _keep = _keep, keep
    try:
        yield
    finally:
        if _forwarding is not None:  # of a virtual machine that has ended it reads the last lines
            _forwarding.join(_SECONDS_TO_KEEP_LAST_LINES)
        _keep = before


def _forward(reading: int) -> None:
    """Read to the end, also when our own standard error is closed: a full pipe would stop the virtual machine."""
    is_shown = True
    with os.fdopen(reading, "rb") as lines:
        for line in lines:
            if line.startswith(_NOISE):
                continue
            if begins := _BEGINS.match(line):
                is_shown = begins["level"] not in _KEPT_ONLY
            keep = _keep
            if keep is not None:
                keep(line)
            if is_shown or keep is None:
                with contextlib.suppress(OSError):
                    os.write(2, line)
