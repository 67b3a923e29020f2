"""Named places where a test may kill, delay or fail the process, to prove that a crash there loses nothing.

A place costs one dictionary look-up when nothing is armed. Armed by the environment variable
`REPLICATOR_FAILPOINTS`, a comma-separated list of `name=action[@n]`: on the n-th pass (1 when left out) do

* `kill`: SIGKILL this process, as a crash would,
* `raise`: raise `RetryableError`,
* `delay:SECONDS`: sleep first,
* `stop`: SIGSTOP this process, as a machine that is paused; SIGCONT has it go on.

Every place is registered when its module is imported, so that a test can list them and no place goes untested.
"""

from __future__ import annotations

import os
import signal
import threading
import time

from replicator_sdk.errors import RetryableError

_registered: set[str] = set()
_armed: dict[str, tuple[str, int]] = {}
_passes: dict[str, int] = {}
_lock = threading.Lock()


def register(*names: str) -> None:
    """Make places known; called at import by the module that passes them."""
    _registered.update(names)


def registered() -> frozenset[str]:
    """Every place made known so far."""
    return frozenset(_registered)


def passes(name: str) -> int:
    """How often the place was passed since it was armed; 0 when it is not armed."""
    with _lock:
        return _passes.get(name, 0)


def arm(spec: str) -> None:
    """Arm the places in `spec` (the environment variable's form); an empty spec disarms all."""
    _armed.clear()
    _passes.clear()
    for item in filter(None, (part.strip() for part in spec.split(","))):
        name, _, action = item.partition("=")
        action, _, count = action.partition("@")
        _armed[name] = (action, int(count or 1))


def failpoint(name: str) -> None:
    """Pass the place `name`; does what is armed there, else nothing.

    Raises:
        RetryableError: When armed with `raise`.
    """
    armed = _armed.get(name)
    if armed is None:
        return
    action, wanted = armed
    with _lock:
        _passes[name] = _passes.get(name, 0) + 1
        if _passes[name] != wanted:
            return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == "stop":
        # To this thread: a signal to the process may be taken by another one, and this one goes on for as long as that waits for a processor.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
    elif action.startswith("delay:"):
        time.sleep(float(action.removeprefix("delay:")))
    else:
        raise RetryableError(f"failpoint {name}", code="RPL-9900", hint="armed by REPLICATOR_FAILPOINTS")


arm(os.environ.get("REPLICATOR_FAILPOINTS", ""))
