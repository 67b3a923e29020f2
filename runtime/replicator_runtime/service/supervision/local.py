"""Runs as processes of this host, each kept by a small one that outlives the service (`keeper.py`)."""

from __future__ import annotations

import json
import math
import os
import select
import shutil
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replicator_runtime.secrets_of_service import ServiceRules
from replicator_runtime.service.file_locks import is_locked
from replicator_runtime.service.private_files import write_private
from replicator_runtime.service.supervision import keeper
from replicator_runtime.service.supervision.launcher import Presence, Seen
from replicator_runtime.service.supervision.process import ProcessIdentity, send

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replicator_runtime.service.supervision.launcher import Order

OUTPUT_BYTES = 2 * 1024 * 1024
END_BYTES = 64 * 1024
"""So much is left of the output of processes that are not among a pipeline's newest."""
_SOON_SECONDS = 0.2
_REFUSED: dict[str, object] = {"refused": True}
_DEFAULT_SIGNALS = (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)


class LocalLauncher:
    """Runs as processes of this host. Used from one thread.

    Args:
        folder: Each process has a folder of its own below it.
        command: The words of the command line, before the command.
        environment: Of the processes.
        shared_secrets: Whether they may use secrets that are given to no namespace.
        output_bytes: How much of the output of each is kept.
    """

    def __init__(
        self,
        folder: Path,
        command: Sequence[str],
        *,
        environment: dict[str, str] | None = None,
        shared_secrets: bool = False,
        output_bytes: int = OUTPUT_BYTES,
    ) -> None:
        self._folder = folder
        self._command = list(command)
        self._environment = dict(os.environ if environment is None else environment)
        self._shared_secrets = shared_secrets
        self._output_bytes = output_bytes
        self._host = socket.gethostname()
        self._open: dict[str, int] = {}
        self._children: dict[str, int] = {}

    @property
    def name(self) -> str:
        """`local`."""
        return "local"

    def place(self, instance_id: str) -> str:
        """The host and a folder of its own."""
        return json.dumps({"host": self._host, "folder": str(self._folder / instance_id)})

    def start(self, place: str, order: Order) -> None:
        """Start the keeper, which starts the command."""
        folder = _folder(place)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        words = [*self._command, *order.words, "--", str(order.file)]
        arguments = [str(folder), str(order.stop_seconds), str(self._output_bytes), *words]
        nothing = os.open(os.devnull, os.O_RDWR)
        try:
            child = os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", keeper.__file__, *arguments],
                self._environment | ServiceRules(order.namespace, self._shared_secrets).environment(),
                file_actions=[(os.POSIX_SPAWN_DUP2, nothing, number) for number in (0, 1, 2)],
                setsid=True,
                setsigmask=[signal.SIGTERM, signal.SIGINT],
                setsigdef=_DEFAULT_SIGNALS,
            )
        finally:
            os.close(nothing)
        self._children[place] = child
        self._open[place] = os.pidfd_open(child)

    def look(self, place: str) -> Seen:
        """What its folder says: the exit code, or who holds the lock."""
        folder = _folder(place)
        if not folder.exists():
            return self._without_folder(place)
        alive = is_locked(folder / keeper.PROCESS)
        if (ended := _read(folder / keeper.EXIT)) is not None:
            return Seen(Presence.ENDED, ended["code"], ended["at"], read_error(folder))
        if alive:
            return Seen(Presence.RUNNING)
        found = _read(folder / keeper.PROCESS)
        if found is None:
            return Seen(Presence.NOT_BEGUN)
        return Seen(Presence.ENDED)

    def _without_folder(self, place: str) -> Seen:
        host = json.loads(place)["host"]
        if host == self._host:
            return Seen(Presence.NOT_BEGUN)
        return Seen(Presence.ELSEWHERE, detail=f"host {host}, folder {_folder(place)}", host=host)

    def refuse(self, place: str) -> Seen:
        """Take the keeper's first file from it: whoever writes that first has the place."""
        found = self.look(place)
        if found.presence is not Presence.NOT_BEGUN:
            return found
        folder = _folder(place)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        claimed = keeper.claim(_REFUSED, str(folder))
        if claimed is not None:
            os.close(claimed)
        return self.look(place)

    def stop(self, place: str) -> None:
        """SIGTERM to the keeper, which passes the first one on."""
        self._signal(place, signal.SIGTERM)

    def kill(self, place: str) -> None:
        """SIGKILL to the keeper; the kernel then kills the command."""
        self._signal(place, signal.SIGKILL)

    def _signal(self, place: str, number: signal.Signals) -> None:
        descriptor = self.descriptor(place)
        if descriptor is not None:
            send(descriptor, number)

    def descriptor(self, place: str) -> int | None:
        """The keeper's pidfd; None when it has gone, or cannot be seen from here."""
        if place not in self._open:
            found = _read(_folder(place) / keeper.PROCESS)
            if found is None or "pid" not in found:
                return None
            opened = ProcessIdentity.from_json(found).open()
            if opened is None:
                return None
            self._open[place] = opened
        return self._open[place]

    def look_again_seconds(self, place: str) -> float:
        """Soon, while a command ends whose keeper was killed; else its descriptor says when."""
        descriptor = self.descriptor(place)
        return _SOON_SECONDS if descriptor is None or _has_ended(descriptor) else math.inf

    def release(self, place: str) -> None:
        """Close the descriptor, and have the kernel forget an ended child."""
        if (opened := self._open.pop(place, None)) is not None:
            os.close(opened)
        self._reap()

    def close(self) -> None:
        """Close all descriptors; the processes go on."""
        for place in list(self._open):
            self.release(place)

    def _reap(self) -> None:
        for place, child in list(self._children.items()):
            try:
                if os.waitpid(child, os.WNOHANG)[0]:
                    del self._children[place]
            except ChildProcessError:
                del self._children[place]

    def output(self, place: str, most: int) -> bytes | None:
        """The end of its files of output; None where they are another host's."""
        if json.loads(place)["host"] != self._host:
            return None
        found = b""
        for name in (keeper.OUTPUT, keeper.OLDER_OUTPUT):
            if len(found) < most:
                found = _end_of(_folder(place) / name, most - len(found)) + found
        return found

    def shorten(self, place: str) -> None:
        """Replace its output by the end of it, and delete a long result, whose error the database has."""
        folder = _folder(place)
        if json.loads(place)["host"] != self._host:
            return
        output, older, result = (folder / name for name in (keeper.OUTPUT, keeper.OLDER_OUTPUT, keeper.RESULT))
        if older.exists() or _size(output) > END_BYTES:
            ending = self.output(place, END_BYTES) or b""
            write_private(output, ending.decode("utf-8", "replace"))
            older.unlink(missing_ok=True)
        if _size(result) > END_BYTES:
            result.unlink()

    def forget(self, place: str) -> None:
        """Delete its folder."""
        if json.loads(place)["host"] == self._host:
            shutil.rmtree(_folder(place), ignore_errors=True)

    def sweep(self, known: set[str]) -> None:
        """Delete folders of instances that the database does not know, unless something runs there."""
        if not self._folder.exists():
            return
        for folder in self._folder.iterdir():
            if folder.name not in known and not is_locked(folder / keeper.PROCESS):
                shutil.rmtree(folder, ignore_errors=True)


def _has_ended(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def read_error(folder: Path) -> dict[str, str]:
    """The error in the envelope that a command has printed; empty when there is none."""
    printed = _read(folder / keeper.RESULT)
    error = printed.get("error") if printed else None
    if not isinstance(error, dict):
        return {}
    return {key: str(error.get(key) or "") for key in ("code", "message", "hint", "table")}


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _end_of(file: Path, most: int) -> bytes:
    """The last bytes of a file; none when there is no such file."""
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, os.fstat(opened.fileno()).st_size - most))
            return opened.read(most)
    except FileNotFoundError:
        return b""


def _folder(place: str) -> Path:
    return Path(json.loads(place)["folder"])


def _read(path: Path) -> dict[str, Any] | None:
    """The JSON object in a file; None when there is no file, or no object in it.

    Raises:
        OSError: When the file cannot be read now, which says nothing of what is in it.
    """
    try:
        found = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return found if isinstance(found, dict) else None
