"""Files that only this service's user can read."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Replace a file, which only this service's user can read; a reader sees all of it or what was there before, also after a crash.

    Raises:
        OSError: When it cannot be written; nothing is left of it then.
    """
    file, made = tempfile.mkstemp(prefix=".", dir=path.parent)  # mode 600
    try:
        with os.fdopen(file, "w", encoding="utf-8") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
        Path(made).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(made).unlink()
        raise
