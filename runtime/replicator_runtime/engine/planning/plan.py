"""A plan: what the next run does because the pipeline was edited, step by step."""

from __future__ import annotations

import enum
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replicator_sdk import TableId

_ID_LETTERS = 12


class StepKind(enum.StrEnum):
    """What was edited."""

    TABLE_IN = "tableIn"
    """A table is selected that was not."""
    TABLE_OUT = "tableOut"
    """A table is not selected any more."""
    COLUMNS = "columns"
    """Other columns of a table are selected."""
    OPERATIONS = "operations"
    """Other operations of a table are left out."""
    ROWS = "rows"
    """Other rows of a table are copied."""
    SETTING = "setting"
    """A setting of source, target or pipeline."""


@dataclass(frozen=True, slots=True)
class Step:
    """What follows from one edit.

    Attributes:
        kind: What was edited.
        subject: The table as text, or the setting as `target.path`.
        change: How it was and how it is; without secrets.
        effect: What the next run does.
        why: Why it needs an approval; empty when it needs none.
        code: Of the error with which the run or the table stops, where it does.
        suggestion: What to do about it; empty when there is nothing to do.
        refused: Whether an approval does not help: the table stops, and nothing is changed.
        table: The table, unless it is a setting.
        copies: Whether the table's rows are copied.
        rows: About how many, as the source estimates them; None when unknown, or when none are.
    """

    kind: StepKind
    subject: str
    change: str
    effect: str
    why: str = ""
    code: str = ""
    suggestion: str = ""
    refused: bool = False
    table: TableId | None = None
    copies: bool = False
    rows: int | None = None

    @property
    def needs_approval(self) -> bool:
        """Whether a run does it only after an operator has approved it."""
        return bool(self.why)

    @property
    def key(self) -> str:
        """Names the step: the same edit of the same deployed state has the same key, whenever and wherever it is found."""
        return _digest(self.kind.value, self.subject, self.change)

    @property
    def cost(self) -> str:
        """What it costs, for people."""
        if not self.copies:
            return "no rows are copied"
        rows = "rows of unknown number" if self.rows is None else f"about {self.rows:,} rows"
        return f"{rows} are read and written; how long that takes is not known"

    def to_json(self) -> dict[str, Any]:
        """The JSON form printed by `replicator plan --json`."""
        return {
            "kind": self.kind.value,
            "subject": self.subject,
            "table": None if self.table is None else self.table.to_json(),
            "change": self.change,
            "effect": self.effect,
            "cost": {"copies": self.copies, "rows": self.rows, "seconds": None, "text": self.cost},
            "needsApproval": self.needs_approval,
            "reason": self.why or None,
            "refused": self.refused,
            "code": self.code or None,
            "suggestion": self.suggestion or None,
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """All steps, in a fixed order.

    Attributes:
        steps: Settings first, then tables by name.
        is_first: Whether the pipeline never ran, so that everything is new.
        generation: Of the state that it was made of.
    """

    steps: tuple[Step, ...]
    is_first: bool = False
    generation: int = 1

    @property
    def asking(self) -> tuple[Step, ...]:
        """The steps that need an approval."""
        return tuple(step for step in self.steps if step.needs_approval)

    @property
    def copied_again(self) -> frozenset[TableId]:
        """The tables that are copied because of it."""
        return frozenset(step.table for step in self.steps if step.copies and step.table is not None)

    @property
    def plan_id(self) -> str:
        """Names the plan: made of the steps that need an approval, or of all where none does; costs and times are no part of it.

        Another generation's is another plan: an approval outlives `replicator reset`, and what is known of those used up does not.
        """
        keys = [step.key for step in self.asking or self.steps]
        return _digest(*keys) if self.generation == 1 else _digest(str(self.generation), *keys)


def _digest(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:_ID_LETTERS]
