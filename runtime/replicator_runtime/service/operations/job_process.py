"""Runs one command of a job, and keeps its result: `python -m` this module, with the job's folder and a locked file.

A process of its own, which goes on when the service ends: the lock says that it lives, and the result waits for the next service.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from collections.abc import Sequence

register("service.job.began", "service.job.done", "service.job.kept")
WORDS, LOCK, PROCESS, OUTPUT, RESULT = "words.json", "lock", "process.json", "output", "result.json"
RESULT_BYTES: Final = 1 << 20


def main(arguments: Sequence[str]) -> int:
    """Run the command whose words are in the folder; its exit code.

    Args:
        arguments: The folder, and the number of the open file that is locked while this process lives.
    """
    folder = Path(arguments[0])
    os.set_inheritable(int(arguments[1]), False)  # what it starts must not keep the lock
    words = json.loads((folder / WORDS).read_text("utf-8"))
    _replace(folder / PROCESS, {"pid": os.getpid()})
    failpoint("service.job.began")
    exit_code = _run(words)
    failpoint("service.job.done")
    _replace(folder / RESULT, {"exitCode": exit_code, "envelope": _envelope(folder / OUTPUT)})
    failpoint("service.job.kept")
    return exit_code


def _run(words: Sequence[str]) -> int:
    sys.argv = ["replicator", *words]
    try:
        importlib.import_module("replicator_runtime.cli").main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.stdout.flush()
    return 0


def _envelope(output: Path) -> dict[str, Any] | None:
    """What it printed, within `RESULT_BYTES`; None when that is no envelope."""
    try:
        found = json.loads(output.read_bytes())
    except ValueError:
        return None
    output.unlink()
    return bounded(found) if isinstance(found, dict) else None


def bounded(envelope: dict[str, Any], most: int = RESULT_BYTES) -> dict[str, Any]:
    """The envelope with its longest lists cut where it is too long, and a warning that says so."""
    cut: dict[str, int] = {}
    while len(json.dumps(envelope, ensure_ascii=False).encode()) > most:
        place, longest = max(_lists(envelope), key=lambda one: len(one[1]), default=("", []))
        if len(longest) < 2:
            text = "the result is too long to be kept"
            return {**envelope, "data": None, "lines": [], "warnings": [text]}
        cut[place] = cut.get(place, 0) + len(longest) - len(longest) // 2
        del longest[len(longest) // 2 :]
    more = [f"{count:,} more entries of {place} are left out: the result was too long" for place, count in cut.items()]
    return {**envelope, "warnings": [*(envelope.get("warnings") or []), *more]} if more else envelope


def _lists(envelope: dict[str, Any]) -> list[tuple[str, list[Any]]]:
    """The lists that may be cut, by what they are called."""
    data = envelope.get("data")
    inner = data.items() if isinstance(data, dict) else ()
    named = [("data", data), ("lines", envelope.get("lines")), *((f"data.{key}", value) for key, value in inner)]
    return [(name, value) for name, value in named if isinstance(value, list)]


def _replace(path: Path, value: object) -> None:
    """Replace a file as a whole; it is on the disk when this returns."""
    made = path.with_suffix(".new")
    with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as opened:
        json.dump(value, opened, ensure_ascii=False)
        opened.flush()
        os.fsync(opened.fileno())
    made.replace(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
