"""A folder on a local or mounted file system, written so that neither a crash nor another process leaves half a file."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import time
from pathlib import Path

from replicator_state.storage.folder import Folder

_TEMPORARY = ".tmp-"
_STALE_SECONDS = 24 * 3600
# File systems without hard links answer with one of these.
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})


class LocalFolder(Folder):
    """Files written to a temporary name, synced, then published by link (create) or rename (replace), then synced.

    fsspec's own local file system is not used: it truncates in place and never syncs. Folders are created with mode 0700 and files
    with 0600; a symbolic link in place of a file is refused.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.place = str(self.path)

    @property
    def exclusive(self) -> bool:
        """Always: `link` and `O_EXCL` have one winner."""
        return True

    def names(self, prefix: str = "") -> list[str]:
        """See `Folder.names`."""
        try:
            with os.scandir(self.path) as entries:
                return [e.name for e in entries if e.name.startswith(prefix) and not e.is_dir()]
        except FileNotFoundError:
            return []

    def folders(self) -> list[str]:
        """See `Folder.folders`."""
        try:
            with os.scandir(self.path) as entries:
                return [e.name for e in entries if e.is_dir()]
        except FileNotFoundError:
            return []

    def read(self, name: str) -> bytes:
        """See `Folder.read`."""
        return self.read_start(name, -1)

    def read_start(self, name: str, nbytes: int) -> bytes:
        """See `Folder.read_start`; all where `nbytes` is negative."""
        descriptor = os.open(self.path / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as file:
            return file.read(nbytes)

    def exists(self, name: str) -> bool:
        """See `Folder.exists`."""
        try:
            (self.path / name).lstat()
        except FileNotFoundError:
            return False
        return True

    def create(self, name: str, content: bytes) -> None:
        """See `Folder.create`."""
        temporary = self._write_temporary(content)
        try:
            self._publish_new(temporary, name, content)
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink()
            # Also when the name was taken: whoever took it may be ourselves before a failed sync.
            _sync_folder(self.path)

    def replace(self, name: str, content: bytes) -> None:
        """See `Folder.replace`."""
        temporary = self._write_temporary(content)
        try:
            temporary.replace(self.path / name)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        _sync_folder(self.path)

    def keep(self, name: str, other: str, content: bytes) -> None:
        """See `Folder.keep`; a link, so that nothing is written and synced again that is durable already."""
        temporary = self._temporary()
        try:
            with contextlib.suppress(FileExistsError):  # NFS asked twice, and lost the first answer: the link is ours
                os.link(self.path / name, temporary, follow_symlinks=False)
            temporary.replace(self.path / other)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            self.replace(other, content)
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink()  # it is there still where both names were one file already

    def append(self, name: str, added: bytes, whole: bytes) -> None:
        """See `Folder.append`; only what was added is written, where it belongs."""
        path, at = self.path / name, len(whole) - len(added)
        try:
            _write_at(path, at, added)
        except FileNotFoundError:
            _make_folders(self.path)
            _write_at(path, 0, whole)

    def sizes(self, prefix: str = "") -> dict[str, int]:
        """See `Folder.sizes`; a file that is deleted meanwhile is left out."""
        found = {}
        for name in self.names(prefix):
            with contextlib.suppress(FileNotFoundError):
                found[name] = (self.path / name).lstat().st_size
        return found

    def remove(self, name: str) -> None:
        """See `Folder.remove`."""
        (self.path / name).unlink(missing_ok=True)

    def clear(self, keep: tuple[str, ...] = ()) -> None:
        """See `Folder.clear`; symbolic links are deleted, not followed."""
        try:
            with os.scandir(self.path) as entries:
                found = list(entries)
        except FileNotFoundError:
            return
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                LocalFolder(entry.path).clear()
            elif not (keep and entry.name.startswith(keep)):
                Path(entry.path).unlink(missing_ok=True)
        _sync_folder(self.path)
        if not keep:
            self.remove_empty()

    def remove_empty(self) -> None:
        """See `Folder.remove_empty`."""
        try:
            self.path.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
                raise
            return
        _sync_folder(self.path.parent)

    def tidy(self) -> None:
        """See `Folder.tidy`; a day old, so that no live writer loses its file."""
        for name in self.names(_TEMPORARY):
            path = self.path / name
            with contextlib.suppress(OSError):
                if time.time() - path.lstat().st_mtime > _STALE_SECONDS:
                    path.unlink()

    def _publish_new(self, temporary: Path, name: str, content: bytes) -> None:
        try:
            os.link(temporary, self.path / name)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            # Exclusive still, though a crash may leave part of it: every reader of ours finds out. A later run may have replaced it.
            _write(self.path / name, content)
            if self.read(name) != content:
                raise FileExistsError(errno.EEXIST, "was replaced while it was written", name) from None

    def _temporary(self) -> Path:
        return self.path / f"{_TEMPORARY}{secrets.token_hex(8)}"

    def _write_temporary(self, content: bytes) -> Path:
        temporary = self._temporary()
        try:
            _write(temporary, content)
        except FileNotFoundError:
            _make_folders(self.path)
            _write(temporary, content)
        return temporary


def _write(path: Path, content: bytes) -> None:
    """Write and sync a file that must not be there yet; leaves none when it fails."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink()
        raise


def _write_at(path: Path, at: int, content: bytes) -> None:
    """Write into a file, which is made when the content is its beginning."""
    created = 0 if at else os.O_CREAT
    descriptor = os.open(path, os.O_WRONLY | created | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        while content:
            written = os.pwrite(descriptor, content, at)
            at, content = at + written, content[written:]
    finally:
        os.close(descriptor)


def _make_folders(path: Path) -> None:
    """Make `path` and what is missing above it, each durable and for this user only."""
    missing = [p for p in (path, *path.parents) if not p.exists()]
    for folder in reversed(missing):
        with contextlib.suppress(FileExistsError):
            folder.mkdir(0o700)
        _sync_folder(folder.parent)


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if (
            error.errno != errno.EINVAL
        ):  # some network file systems cannot sync a folder; their rename is durable itself
            raise
    finally:
        os.close(descriptor)
