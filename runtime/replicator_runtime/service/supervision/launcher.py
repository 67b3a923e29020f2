"""What starts the processes of pipelines and finds them again; there are local processes, and Kubernetes Jobs.

A service may be killed between any two steps. So the *place* of a process is chosen and stored before the process is
started, and everything that a launcher knows of a process can be found by its place alone, also by a later service.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Presence(enum.Enum):
    """What is known of a process."""

    NOT_BEGUN = "not begun"
    """Nothing is known of it: it has not begun, and may yet, unless it is refused."""
    RUNNING = "running"
    ENDED = "ended"
    ELSEWHERE = "elsewhere"
    """This service cannot see it: it was started on another host."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a launcher has found at a place.

    Attributes:
        presence: Whether it runs.
        exit_code: Once it has ended; None where no one has seen its end, such as after the machine failed.
        at: When it ended, in seconds since 1970; None when unknown.
        error: The error that it printed: `code`, `message`, `hint`; empty when none.
        detail: For people, of one that is elsewhere.
        host: That of one that is elsewhere, as its state names it, too; empty when that says nothing.
    """

    presence: Presence
    exit_code: int | None = None
    at: float | None = None
    error: dict[str, str] = field(default_factory=dict)
    detail: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be started.

    Attributes:
        namespace: Of the pipeline.
        name: Of the pipeline.
        instance_id: Of the process.
        words: The command and its options, such as `run`; the pipeline's file is not among them.
        config: The pipeline JSON.
        file: The file on this host that holds it.
        stop_seconds: How long it has, after it was asked to end, before it is killed.
    """

    namespace: str
    name: str
    instance_id: str
    words: Sequence[str]
    config: str
    file: Path
    stop_seconds: float


class Launcher(Protocol):
    """Starts processes and finds them again. Used from one thread. No call waits for a process to end."""

    @property
    def name(self) -> str:
        """By which an instance's row names this launcher."""

    def place(self, instance_id: str) -> str:
        """Where the process of an instance will be found; the same at each call."""

    def start(self, place: str, order: Order) -> None:
        """Start it, unless it was refused. At most one process ever begins at a place.

        Raises:
            OSError: When it cannot be started.
        """

    def look(self, place: str) -> Seen:
        """What is known of it now."""

    def refuse(self, place: str) -> Seen:
        """Have it never begin, if it has not begun; what is known of it then, which is never that it has not begun."""

    def stop(self, place: str) -> None:
        """Ask it to end, and have it killed after its `stop_seconds`. Asking again changes nothing."""

    def kill(self, place: str) -> None:
        """End it at once."""

    def descriptor(self, place: str) -> int | None:
        """A file descriptor that is readable once it has ended; None where it has to be looked at again from time to time."""

    def look_again_seconds(self, place: str) -> float:
        """How soon to look at it again, where its descriptor does not say that it has ended."""

    def release(self, place: str) -> None:
        """It has ended and is looked at no more; what it has left stays to be read."""

    def output(self, place: str, most: int) -> bytes | None:
        """The newest `most` bytes of what it has printed on standard error; None where that is kept elsewhere. Safe from any thread.

        Raises:
            OSError: When it cannot be read now.
        """

    def shorten(self, place: str) -> None:
        """It has ended, and others have since: delete all of its output but the end. Repeating it changes nothing."""

    def forget(self, place: str) -> None:
        """Delete what it has left."""

    def sweep(self, known: set[str]) -> None:
        """Delete what was left by instances that are not known to the database."""

    def close(self) -> None:
        """The service ends; the processes go on."""
