"""Takes the place of the command line in the processes that a supervisor starts: `fake_replicator.py WORDS -- FILE`.

Its behaviour is the pipeline's `description`, or what `NAME.behaviour` says in the folder `offsetBasePath`:

* nothing: it runs until SIGTERM and ends with 143,
* `exit N`: it ends at once with that code,
* `slow SECONDS`: after SIGTERM it needs so long,
* `held`: after SIGTERM it waits until `NAME.behaviour` says `go`,
* `ignore`: SIGTERM does not end it,
* `hangs`: `delete` does not end before SIGTERM,
* `nothing`: `delete` says that nothing is stored,
* `print N`: it prints so many bytes on standard error first.

`NAME.log` there has a line for each begin, SIGTERM and end. A line `double` says that two lived at once.
"""

# It starts in a few milliseconds, since it imports little.
# ruff: noqa: PTH103, PTH110, PTH123, T201
from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time


def main(words: list[str]) -> None:
    """Behave as the file says."""
    with open(words[-1], encoding="utf-8") as file:
        config = json.load(file)
    base, name = config["offsetBasePath"], config["name"]
    os.makedirs(base, exist_ok=True)
    log = os.open(f"{base}/{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    lock = os.open(f"{base}/{name}.lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.write(log, f"double {os.getpid()}\n".encode())
    behaviour = config.get("description", "")
    if os.path.exists(f"{base}/{name}.behaviour"):
        with open(f"{base}/{name}.behaviour", encoding="utf-8") as file:
            behaviour = file.read()
    stopped: list[int] = []

    def note(number: int, _: object) -> None:
        stopped.append(number)
        os.write(log, b"term\n")

    signal.signal(signal.SIGTERM, note)
    os.write(log, f"{words[0]} {os.getpid()} {' '.join(words[1:-2])}\n".encode())
    kind, _, rest = behaviour.partition(" ")
    if kind == "print":
        for _ in range(int(rest) // 1000):
            os.write(2, b"x" * 999 + b"\n")
    if kind == "exit":
        end(log, int(rest or 0))
    if words[0] == "delete":
        delete(log, kind, stopped)
    while not stopped or kind == "ignore":
        signal.pause()
    while kind == "held":
        with open(f"{base}/{name}.behaviour", encoding="utf-8") as file:
            kind = "" if file.read() == "go" else kind
        time.sleep(0.01)
    if kind == "slow":
        until = time.monotonic() + float(rest)
        while time.monotonic() < until:
            time.sleep(0.01)
    end(log, 143)


def delete(log: int, kind: str, stopped: list[int]) -> None:
    """Do nothing, unless it hangs or finds nothing."""
    while kind == "hangs" and not stopped:
        signal.pause()
    if kind == "nothing":
        end(log, 3, "RPL-1242")
    end(log, 143 if stopped else 0)


def end(log: int, code: int, named: str = "") -> None:
    """End with a code, as the command line does."""
    error = {
        "code": named or f"RPL-{code}000",
        "message": f"failed with {code}",
        "hint": "do what helps",
        "table": None,
    }
    envelope: dict[str, object] = {
        "schema": "replicator.run/v1",
        "data": None,
        "warnings": [],
        "error": error if 0 < code < 128 else None,
    }
    print(json.dumps(envelope), flush=True)
    os.write(log, f"end {code}\n".encode())
    sys.exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
