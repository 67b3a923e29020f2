"""The problems of a pipeline, reported all at once, each with its JSON path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from replicator_sdk.errors import ConfigError

INVALID_SETTING = "RPL-1003"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to fix.

    Attributes:
        path: Its JSON path, e.g. `stages[0].plugin.properties.port`; empty for the file as a whole.
        message: What is wrong there; never holds the value found.
        hint: The next step.
        code: Stable code `RPL-nnnn`.
    """

    path: str
    message: str
    hint: str = ""
    code: str = INVALID_SETTING

    def __str__(self) -> str:
        step = f" ({self.hint})" if self.hint else ""
        return f"{self.path}: {self.message}{step}" if self.path else f"{self.message}{step}"

    def to_json(self) -> dict[str, Any]:
        """The JSON form printed by `replicator validate --json`."""
        return {"code": self.code, "path": self.path, "message": self.message, "hint": self.hint}


class InvalidPipelineError(ConfigError):
    """A pipeline JSON with one problem or more.

    Attributes:
        problems: All of them, in the order of the JSON.
    """

    def __init__(self, problems: Sequence[Problem], *, where: str = "the pipeline") -> None:
        self.problems = tuple(problems)
        self.where = where
        first = self.problems[0]
        if len(self.problems) == 1:
            super().__init__(first.message, code=first.code, hint=first.hint or f"fix {where}", path=first.path)
            return
        codes = {problem.code for problem in self.problems}
        listed = "; ".join(str(problem) for problem in self.problems)
        super().__init__(
            f"{where} has {len(self.problems)} problems: {listed}",
            code=first.code if len(codes) == 1 else INVALID_SETTING,
            hint="fix each of them, then run `replicator validate`",
        )

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (self.problems, self.where))


def _rebuild(problems: Sequence[Problem], where: str) -> InvalidPipelineError:
    return InvalidPipelineError(problems, where=where)
