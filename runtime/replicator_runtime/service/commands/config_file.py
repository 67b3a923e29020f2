"""A config in a file while a command reads it."""

from __future__ import annotations

import json
import os
import secrets
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from replicator_runtime.service.settings import ServiceSettings

_FOLDER = "asked"
_KEPT_SECONDS = 3600


@contextmanager
def config_file(settings: ServiceSettings, config: Mapping[str, Any]) -> Iterator[Path]:
    """The path of a file with `config` that only this user may read; it is gone when this is left."""
    folder = settings.work_folder / _FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    _remove_left(folder)
    path = folder / f"{secrets.token_hex(16)}.json"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        json.dump(config, file)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def _remove_left(folder: Path) -> None:
    """Remove what a service that was killed has left."""
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < time.time() - _KEPT_SECONDS:
                path.unlink()
