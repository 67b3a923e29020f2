"""The text of a message: conditions of one kind together, the first ten by name, without anything that a service would obey."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from replicator_runtime.notices.conditions import Key
from replicator_runtime.observability.next_steps import completed
from replicator_runtime.observability.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replicator_runtime.config.sections.notifications import NoticeKind
    from replicator_runtime.notices.conditions import Condition

Tone = Literal["failure", "warning", "success", "info"]

NAMED: Final = 10
"""So many tables are named; of the others the message says how many there are."""
_BEGAN: Final[Mapping[NoticeKind, tuple[str, str]]] = {
    "table_failing": ("a table fails", "{:,} tables fail"),
    "run_failing": ("the run fails, and is retried", "the run fails, and is retried"),
    "run_failed": ("the run has ended with an error", "the run has ended with an error"),
    "run_gone": ("an earlier run has ended without a word", "an earlier run has ended without a word"),
    "source_log_held": ("the source's log is held", "the source's log is held"),
    "objective_broken": ("a freshness objective is broken", "{:,} freshness objectives are broken"),
    "verify_differences": ("a table differs from its copy", "{:,} tables differ from their copies"),
    "schema_change_waiting": (
        "a change of structure waits for a decision",
        "changes of structure of {:,} tables wait for a decision",
    ),
    "snapshot_done": ("all tables are copied", "all tables are copied"),
}
# A table that was paused, dropped or left out works no better, and an objective that was taken away is not met.
_ENDED: Final[Mapping[NoticeKind, tuple[str, str]]] = {
    "table_failing": ("a table no longer fails", "{:,} tables no longer fail"),
    "run_failing": ("the run works again", "the run works again"),
    "run_failed": ("a run works again", "a run works again"),
    "run_gone": ("", ""),
    "source_log_held": ("the source's log is no longer held", "the source's log is no longer held"),
    "objective_broken": (
        "a freshness objective is no longer broken",
        "{:,} freshness objectives are no longer broken",
    ),
    "verify_differences": (
        "a table is no longer known to differ from its copy",
        "{:,} tables are no longer known to differ from their copies",
    ),
    "schema_change_waiting": (
        "a change of structure no longer waits",
        "changes of structure of {:,} tables no longer wait",
    ),
    "snapshot_done": ("", ""),
}
_WARNINGS: Final = frozenset({"schema_change_waiting", "source_log_held", "run_failing", "run_gone"})
# Marks by which chats address people, make links and quote.
_OBEYED: Final = str.maketrans({"<": "‹", ">": "›", "@": "＠", "`": "'", "[": "(", "]": ")", "|": "¦", "*": "∗"})


@dataclass(frozen=True, slots=True)
class Message:
    """What a service is given.

    Attributes:
        title: One line.
        body: Some lines.
        tone: How bad it is.
    """

    title: str
    body: str
    tone: Tone


def message(
    name: str, began: Mapping[Key, Condition], ended: Mapping[Key, Condition], *, has_base: bool = False
) -> Message:
    """One message about all of these.

    Args:
        name: The replicator's, with its namespace unless that is the default.
        began: What holds.
        ended: What is over.
        has_base: Whether its state is at a place of its own, where its name alone does not find it.
    """
    parts = [
        *_parts(began, _BEGAN, with_texts=True),
        *_parts(ended, _ENDED, with_texts=False),
    ]
    title = "; ".join(heading for heading, _ in parts)
    lines = [line for heading, details in parts for line in (f"{heading}:" if details else heading, *details)]
    lines.append(f"See: {_status_command(name, has_base=has_base)}")
    return Message(plain(f"replicator {name}: {title}"), "\n".join(map(plain, lines)), _tone(began))


def _status_command(name: str, *, has_base: bool) -> str:
    by_file = completed("`replicator status NAME`").strip("`")
    if has_base and not by_file.endswith(" NAME"):
        return by_file
    namespace, _, bare = name.rpartition("/")
    return shlex.join(("replicator", "status", bare, *(("--namespace", namespace) if namespace else ())))


def plain(text: str) -> str:
    """`text` on one line, without secrets, and without what a terminal or a chat takes for more than text."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in redact(text))
    return shown.translate(_OBEYED).replace("://", ": //")


def _parts(
    found: Mapping[Key, Condition], words: Mapping[NoticeKind, tuple[str, str]], *, with_texts: bool
) -> list[tuple[str, list[str]]]:
    """A heading and its lines for each kind."""
    parts = []
    for kind, (one, many) in words.items():
        of_kind = sorted(((k, c) for k, c in found.items() if k.kind == kind), key=lambda one: one[0])
        if not of_kind:
            continue
        heading = one if len(of_kind) == 1 else many.format(len(of_kind))
        details = [text for key, one_of in of_kind[:NAMED] if (text := _detail(key, one_of, with_text=with_texts))]
        if len(of_kind) > NAMED:
            details.append(f"… and {len(of_kind) - NAMED:,} more")
        parts.append((heading, details))
    return parts


def _detail(key: Key, condition: Condition, *, with_text: bool) -> str:
    about = "" if key.kind == "source_log_held" else key.about
    text = condition.text if with_text else ""
    if key.kind == "run_gone" and condition.times > 1:
        text += f"; {condition.times:,} runs since the last message"
    return "- " + ": ".join(filter(None, (about, text))) if about or text else ""


def _tone(began: Mapping[Key, Condition]) -> Tone:
    kinds = {key.kind for key in began}
    if not kinds:
        return "success"
    if kinds == {"snapshot_done"}:
        return "info"
    return "warning" if kinds <= _WARNINGS | {"snapshot_done"} else "failure"
