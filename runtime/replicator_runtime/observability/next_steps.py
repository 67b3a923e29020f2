"""Completes the commands that errors advise by what is known where they are printed: the pipeline as it was given, and the table.

An error says `replicator table resync NAME TABLE`, since it does not know how its pipeline is called where it is read. The
command line, and the logs of a run, know that: they print `replicator table resync orders.json public.orders`, to be copied as it is.
"""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

BY_FILE = frozenset(
    {
        "assess", "delete", "explain-row", "heal", "maintain", "notifications test", "plan", "reset", "rewind", "run", "tables", "validate", "verify", "warm-up",
    }
)  # fmt: skip
"""Commands that connect to source or target, and so need the pipeline's file."""
BY_NAME = frozenset(
    {
        "approve", "dead-letters list", "dead-letters replay", "ddl approve", "ddl list", "ddl reject", "logs", "offsets list", "offsets show",
        "pause", "requests", "restart", "resume", "slo", "start", "status", "stop", "table drop", "table pause", "table resume", "table resync", "table retry",
    }
)  # fmt: skip
"""Commands for which a name does as well."""
HERE_ONLY = frozenset({"assess", "notifications test", "run", "tables", "validate", "warm-up"})
"""Commands that no service is asked to do; of the others a service does those with a name, too."""
_OF_TABLES = "table "
_COMMAND = re.compile(r"`replicator ([^`]+)`")
_COPY = re.compile(r"`replicator table resync NAME TABLE…?(?: --in-place)?`")
_REFILL = "`replicator reset PIPELINE`"
_WHAT_REFILLS = (
    "; this source copies no single table: every table is emptied and filled from what the log has, so where that is not all,"
    " let the program that writes the log snapshot its tables again first"
)
_PIPELINE = frozenset({"NAME", "PIPELINE"})


@dataclass(frozen=True, slots=True)
class Subject:
    """What a command was given.

    Attributes:
        pipeline: The pipeline's file, or the replicator's name; empty for commands that take none.
        namespace: Of the name.
        base: Where its state is, when that was given.
        table: The only table that was given, for errors that name none.
        server: The service that was asked; empty when the command works here.
    """

    pipeline: str = ""
    namespace: str = "default"
    base: str | None = None
    table: str = ""
    server: str = ""

    @property
    def is_file(self) -> bool:
        """Whether it was given by its file."""
        return self.pipeline.endswith(".json") or Path(self.pipeline).is_file()

    def argument(self, command: str) -> str:
        """The words by which a command finds the pipeline; empty when they are not known."""
        if self.server:
            return "" if command in HERE_ONLY else self._at_server()
        if not self.pipeline or (command in BY_FILE and not self.is_file):
            return ""
        words = [self.pipeline]
        if command in BY_NAME and not self.is_file and self.namespace != "default":
            words += ["--namespace", self.namespace]
        if command in BY_NAME and self.base:
            words += ["--base", self.base]
        return shlex.join(words)

    def _at_server(self) -> str:
        words = [self.pipeline]
        if not self.is_file and self.namespace != "default":
            words += ["--namespace", self.namespace]
        if os.environ.get("REPLICATOR_SERVER") != self.server:
            words += ["--server", self.server]
        return shlex.join(words) if self.pipeline else ""


def only(tables: Sequence[str] | None) -> str:
    """The table that was given, when it is one."""
    return tables[0] if tables and len(tables) == 1 else ""


_subject = Subject()


def set_subject(subject: Subject) -> None:
    """Complete every later text of this process by `subject`, in all threads."""
    global _subject  # noqa: PLW0603 - one command a process, as its logs
    _subject = subject


def completed(text: str, table: str | None = None) -> str:
    """`text` with its commands completed as far as is known; anything else stays as it is.

    Args:
        text: A next step, or a message with one.
        table: The table it is about.
    """
    subject = _subject
    return _COMMAND.sub(lambda found: f"`replicator {_completed(found[1], subject, table or subject.table)}`", text)


def without_copies(text: str) -> str:
    """A next step for a source that takes no snapshots: what copies a table again there is to read the log from its beginning."""
    found = _COPY.sub(_REFILL, text)
    return found if found == text or _REFILL in text else found + _WHAT_REFILLS


def _completed(command: str, subject: Subject, table: str) -> str:
    words = command.split(" ")
    name = next((n for n in (" ".join(words[:2]), words[0]) if n in BY_FILE | BY_NAME), "")
    rest = words[len(name.split()) :]
    if not name:
        return command
    if not rest or rest[0].startswith("-"):  # it is named only
        if name.startswith(_OF_TABLES) or not subject.argument(
            name
        ):  # `table resync` may be meant for another pipeline
            return command
        rest = ["NAME", *rest]
    given = {"TABLE": shlex.quote(table) if table else "", **dict.fromkeys(_PIPELINE, subject.argument(name))}
    return " ".join([name, *(given.get(word) or word for word in rest)])
