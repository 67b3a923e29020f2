"""What the tests let run in processes of their own: `python -m tests.state.worker ROLE FOLDER KIND ARGUMENTS…`."""

from __future__ import annotations

import functools
import os
import sys
import time
import traceback
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import fsspec

from replicator_sdk.errors import ReplicatorError
from replicator_state import OffsetStore, ReplicatorDirectory, SavedOffset, check_identity
from replicator_state.lease.epochs import EpochRegister
from replicator_state.lease.lease import Lease
from replicator_state.storage.folder import Folder
from replicator_state.storage.local_folder import LocalFolder
from replicator_state.storage.remote_folder import RemoteFolder
from replicator_state.storage.store_retry import StoreRetry
from tests.state.stores import shared_plain_folder

PATIENCE = StoreRetry(20, "test")


def folder(path: str, kind: str) -> Folder:
    """The folder under test: `local` disk, the same disk through a file system without exclusive creation, or `s3://BUCKET`."""
    if kind == "local":
        return LocalFolder(path)
    if kind.startswith("s3://"):
        return RemoteFolder(fsspec.filesystem("s3"), f"{kind.removeprefix('s3://')}{path}", kind)
    return RemoteFolder(shared_plain_folder(Path(path)), "", "plain")


def say(*words: object) -> None:
    """One line to whoever started this process, at once."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def _wait_for(file: str) -> None:
    while not Path(file).exists():
        time.sleep(0.001)


def crowd(path: str, count: str, role: str, *arguments: str) -> None:
    """Forks `count` processes of one role, which wait for the file `….go` and write to `….out0` and so on.

    A fork is a process as real as another one, and needs no second import of everything.
    """
    children = [_fork(path, number, role, [a.format(number) for a in arguments]) for number in range(int(count))]
    say("ready")
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    sys.exit(max(map(abs, codes)))


def _fork(path: str, number: int, role: str, arguments: list[str]) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        sys.stdout = Path(f"{path}.out{number}").open("w")  # noqa: SIM115  # for the rest of the process
        _wait_for(path + ".go")
        ROLES[role](path, *arguments)
        code = 0
    except BaseException:  # noqa: BLE001  # the process ends here
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def claim(path: str, kind: str, rounds: str) -> None:
    """Claims epochs as fast as it can; prints those it won."""
    register = EpochRegister(folder(path, kind))
    for _ in range(int(rounds)):
        epoch = register.newest() + 1
        if register.claim(epoch, uuid.uuid4().hex.encode()):
            say(epoch)


def lease(path: str, kind: str) -> None:
    """Takes the lease once and keeps it until the file `….end` is there; prints the epoch, or the code of the refusal."""
    try:
        say(Lease.acquire(folder(path, kind), PATIENCE, uuid.uuid4().hex).epoch)
    except ReplicatorError as error:
        say(error.code)
    _wait_for(path + ".end")


def offsets(path: str, kind: str, count: str, first: str) -> None:
    """Saves offsets as fast as it can; prints the sequence number of each once it is durable."""
    store = OffsetStore(folder(path, kind), PATIENCE)
    for number in range(int(first), int(first) + int(count)):
        store.save(SavedOffset(number, {"lsn": str(number).encode() * 50}, datetime.now(UTC)))
        say(number)


def state(path: str, _: str) -> None:
    """Replaces one value and the status as fast as it can; prints each number once it is durable."""
    store = ReplicatorDirectory(path, "n", "shop").states()
    number = int(store.get("k") or b"0")
    while True:
        number += 1
        store.put("k", str(number).encode().rjust(4000, b"0"))
        store.put_status({"number": number, "filling": "x" * 20_000})
        say(number)


def walk(path: str, _: str) -> None:
    """One short life of a run, past every kill point of the state package; prints what is durable."""
    directory = ReplicatorDirectory(path, "n", "shop", retry_seconds=0)
    held = directory.acquire(uuid.uuid4().hex)
    store, states = directory.offsets(held), directory.states(held)
    check_identity(states, "source")
    latest = store.latest()
    first = latest.sequence_number + 1 if latest else 1
    for number in range(first, first + 4):
        states.put("k", str(number).encode())
        say("put", number)
        store.save(SavedOffset(number, {"lsn": str(number).encode()}, datetime.now(UTC)))
        say("saved", number)
        states.put_status({"number": number})
        held.renew()
    held.release()
    say("done")


def zombie(path: str, kind: str, what: str, before: str) -> None:
    """A run that is paused between its look at the lease and one late write; the write is let go by the file `….go`."""
    paused = folder(path + "/n/shop/1", kind)
    directory = ReplicatorDirectory(path, "n", "shop")
    directory._folder = paused
    held = directory.acquire("zombie", ttl_seconds=0.3)
    if before == "after a first one":
        change(directory, held, what, 1)
    writes = {"create": paused.create, "replace": paused.replace}

    def late(method: str, name: str, content: bytes) -> None:
        """Waits before the first write."""
        for other, true in writes.items():
            setattr(paused, other, true)
        say("paused")
        _wait_for(path + ".go")
        writes[method](name, content)

    for method in writes:
        setattr(paused, method, functools.partial(late, method))
    try:
        change(directory, held, what, 2)
        say("done")
    except ReplicatorError as error:
        say(error.code)


def change(directory: ReplicatorDirectory, held: Lease, what: str, number: int) -> None:
    """One write of each kind of state file."""
    if what == "offset":
        directory.offsets(held).save(SavedOffset(number, {"lsn": str(number).encode()}, datetime.now(UTC)))
    elif what == "value":
        directory.states(held).scoped("runtime").put("k", str(number).encode())
    elif what == "deletion":
        store = directory.states(held).scoped("runtime")
        store.delete("k") if number == 2 else store.put("k", str(number).encode())
    elif what == "identity":
        check_identity(directory.states(held), "the source")
    elif what == "status":
        directory.states(held).put_status({"number": number})
    else:
        held.renew()


ROLES: dict[str, Callable[..., None]] = {
    "crowd": crowd,
    "claim": claim,
    "lease": lease,
    "offsets": offsets,
    "state": state,
    "walk": walk,
    "zombie": zombie,
}

if __name__ == "__main__":
    ROLES[sys.argv[1]](*sys.argv[2:])
