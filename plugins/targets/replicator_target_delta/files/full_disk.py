"""Says of a full disk which folder needs space: the system's own error does not name it."""

from __future__ import annotations

import contextlib
import errno
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from replicator_sdk.errors import RetryableError
from replicator_target_delta.location import is_on_disk

if TYPE_CHECKING:
    from collections.abc import Iterator

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
FULL_WORDS: Final = ("No space left on device", "Disk quota exceeded")
"""Of the JVM, which has no numbers for them."""


@contextlib.contextmanager
def naming_full_disk(root: str) -> Iterator[None]:
    """Around what writes below `root`.

    Raises:
        RetryableError: RPL-4410 when there is no space; the file that was being written belongs to no commit.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise no_space(root) from error


def no_space(root: str) -> RetryableError:
    """The error for a full disk below `root`; a quota can be used up while the disk has space, so what is free is shown."""
    return RetryableError(
        f"no space left at {root}{_free(root)}",
        code="RPL-4410",
        hint="free space there, which is enough: it is retried by itself and nothing was lost",
    )


def _free(root: str) -> str:
    if not is_on_disk(root):
        return ""
    with contextlib.suppress(OSError):
        existing = next(folder for folder in (Path(root), *Path(root).parents) if folder.exists())
        return f": {shutil.disk_usage(existing).free:,} bytes are free"
    return ""
