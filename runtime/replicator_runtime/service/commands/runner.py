"""Runs the command line in a process of its own, and reads the envelope that it prints.

Plugins, drivers and their memory stay out of the service; a plugin that hangs or crashes ends its own process only. What
the service does is what the same words do at a terminal.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from replicator_runtime.service.commands.process import CommandProcess, Ended
from replicator_runtime.service.places import Asking, Places, asking
from replicator_runtime.service.problems import ProblemError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from replicator_runtime.service.settings import ServiceSettings

NOT_VALID = "RPL-1500"
OUT_OF_TIME = "RPL-1502"
NO_ENVELOPE = "RPL-1503"
ENDS = "RPL-1508"
_AT_ONCE = 3
_OF_A_NAMESPACE = 2
"""One is left to the others, whatever a namespace's sources and targets do."""
_THAT_READ = 1
"""What viewers ask for leaves the others to what operators do."""
_PLACES, _PLACES_OF_A_NAMESPACE = 16, 8
"""For those that run and those that wait: each has a thread, of 40 that all requests share."""
_OF_CLASS = {"config": 422}
_OF_EXIT_CODE = {2: 422, 3: 409, 4: 503, 5: 409, 6: 409, 7: 409, 8: 409}


@dataclass(frozen=True, slots=True)
class Envelope:
    """What a command printed with `--json` (`docs/cli.md`).

    Attributes:
        exit_code: Of the process.
        data: The result.
        warnings: Shown beside it.
        error: None when it did what it was asked for.
        lines: What it prints on standard output without `--json`; next steps name the pipeline as `NAME`.
    """

    exit_code: int
    data: Any
    warnings: list[str] = field(default_factory=list)
    error: dict[str, Any] | None = None
    lines: list[str] = field(default_factory=list)

    @property
    def problems(self) -> list[dict[str, str]]:
        """Each problem of a pipeline that is not valid: `path`, `message`, `hint` and `code`."""
        if self.error is None:
            return []
        single = {"path": self.error.get("path") or "", **{k: self.error.get(k) or "" for k in _OF_PROBLEM}}
        found: list[dict[str, str]] = self.error.get("problems") or [single]
        return found

    def renamed(self, names: Mapping[str, str]) -> Envelope:
        """The same with other names for things, such as for a file that only the service knows."""
        return replace(
            self,
            data=_renamed(self.data, names),
            warnings=_renamed(self.warnings, names),
            error=_renamed(self.error, names),
            lines=_renamed(self.lines, names),
        )

    def raise_for_error(self) -> None:
        """Do nothing unless the command failed.

        Raises:
            ProblemError: With the command's own code and hint.
        """
        if self.error is not None:
            status = _OF_CLASS.get(self.error.get("class", "")) or _OF_EXIT_CODE.get(self.exit_code, 500)
            raise ProblemError(
                status,
                self.error.get("code", NO_ENVELOPE),
                self.error.get("message", ""),
                hint=self.error.get("hint", ""),
                table=self.error.get("table"),
                position=self.error.get("position"),
                error_class=self.error.get("class"),
                exit_code=self.exit_code,
            )


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for name, other in names.items():
            value = value.replace(name, other)
        return value
    if isinstance(value, dict):
        return {key: _renamed(inner, names) for key, inner in value.items()}
    return [_renamed(inner, names) for inner in value] if isinstance(value, list) else value


_OF_PROBLEM = ("message", "hint", "code")


class CommandRunner:
    """Runs commands, three at a time, of which two are of one namespace and one only reads; others wait. Safe from any thread.

    Args:
        settings: The service's.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings = settings
        self._places = Places(_PLACES, _PLACES_OF_A_NAMESPACE)
        self._turns = threading.Condition()
        self._asked: list[Asking] = []
        self._lock = threading.Lock()
        self._running: set[CommandProcess] = set()
        self._closed = False

    def run(self, words: Sequence[str], *, timeout: float = 60.0) -> Envelope:
        """Run `replicator WORDS --json`.

        Args:
            words: The command and its arguments; texts of users follow a `--`, so that none is taken for an option.
            timeout: In seconds, the wait for its turn included.

        Raises:
            ProblemError: 504 RPL-1502 when it takes longer, 500 RPL-1503 when it prints no envelope, 503 RPL-1508 when
                the service ends meanwhile, 503 RPL-1514 when too many wait already.
        """
        until = time.monotonic() + timeout
        with self.waiting(), self._turn(words, timeout):
            return self.run_at_once(words, max(0.0, until - time.monotonic()))

    def run_module(self, words: Sequence[str], *, timeout: float = 60.0) -> Envelope:
        """Run `python -m WORDS`, a module that prints an envelope; in turn with the commands.

        Raises:
            ProblemError: As `run`.
        """
        until = time.monotonic() + timeout
        line = [sys.executable, "-m", *words]
        with self.waiting(), self._turn(words, timeout), self._started(line) as process:
            ended = process.wait(max(0.0, until - time.monotonic()))
        return self._envelope(words, ended, timeout)

    def run_at_once(self, words: Sequence[str], timeout: float) -> Envelope:
        """The same beside all others, without a turn.

        Raises:
            ProblemError: As `run`.
        """
        with self._started(command_line(words)) as process:
            ended = process.wait(timeout)
        return self._envelope(words, ended, timeout)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """One of the places for requests that wait for a command.

        Raises:
            ProblemError: 503 RPL-1514 when there is none.
        """
        with self._places.taken():
            yield

    @contextmanager
    def _turn(self, words: Sequence[str], timeout: float) -> Iterator[None]:
        """Run a command meanwhile."""
        who = asking.get()
        with self._turns:
            if not self._turns.wait_for(lambda: self._may_run(who), timeout):
                raise _too_late(words, timeout)
            self._asked.append(who)
        try:
            yield
        finally:
            with self._turns:
                self._asked.remove(who)
                self._turns.notify_all()

    def _may_run(self, who: Asking) -> bool:
        if who.reads and sum(one.reads for one in self._asked) >= _THAT_READ:
            return False
        of_namespace = sum(one.namespace == who.namespace for one in self._asked)
        return len(self._asked) < _AT_ONCE and of_namespace < _OF_A_NAMESPACE

    @contextmanager
    def _started(self, line: Sequence[str]) -> Iterator[CommandProcess]:
        """A process, at once and beside all others; it has ended when this is left.

        Raises:
            ProblemError: 503 RPL-1508 when the service ends, 422 RPL-1500 when a word cannot be passed to a process.
        """
        if any("\0" in word or not _encodable(word) for word in line):
            raise ProblemError(422, NOT_VALID, "a name has a character that no name can have")
        with self._lock:
            if self._closed:
                raise _ends()
            process = CommandProcess(line, self._settings, asking.get().namespace)
            self._running.add(process)
        try:
            yield process
        finally:
            process.close()
            with self._lock:
                self._running.discard(process)

    def close(self) -> None:
        """End every command with all its processes, and start no other; those that wait for one get RPL-1508."""
        with self._lock:
            self._closed = True
            running = list(self._running)
        for process in running:
            process.kill()

    def _envelope(self, words: Sequence[str], ended: Ended | None, timeout: float) -> Envelope:
        if self._closed:
            raise _ends()
        if ended is None:
            raise _too_late(words, timeout)
        return read_envelope(ended.printed, ended.exit_code)


def _too_late(words: Sequence[str], timeout: float) -> ProblemError:
    return ProblemError(
        504,
        OUT_OF_TIME,
        f"the command {words[0]} has not ended after {timeout:g} s",
        hint="look whether source and target can be reached, and try again",
    )


def _ends() -> ProblemError:
    return ProblemError(503, ENDS, "the service ends", hint="try again when it has started")


def _encodable(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def command_line(words: Sequence[str]) -> list[str]:
    """The process that runs `replicator WORDS --json` with this interpreter."""
    options, texts = list(words), []
    if "--" in options:
        at = options.index("--")
        options, texts = options[:at], options[at:]
    return [sys.executable, "-c", "from replicator_runtime.cli import main; main()", *options, "--json", *texts]


def read_envelope(printed: bytes, exit_code: int) -> Envelope:
    """The envelope that a command printed.

    Raises:
        ProblemError: 500 RPL-1503 when it printed none.
    """
    try:
        found = json.loads(printed)
        return Envelope(exit_code, found["data"], found["warnings"], found["error"], found.get("lines", []))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ProblemError(
            500,
            NO_ENVELOPE,
            f"a command ended with exit code {exit_code} and printed no result",
            hint="give the same command at a terminal with --debug, and report what it shows",
        ) from None
