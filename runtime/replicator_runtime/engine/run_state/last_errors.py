"""Remembers errors that have gone, so that one which comes and goes is seen by whoever looks later."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

KEPT_SECONDS: Final = 900.0
"""How long an error is shown after it was there last."""


@dataclass(frozen=True, slots=True)
class LastError:
    """An error, and when it was there last.

    Attributes:
        parts: Code, message and hint, as `error_view` makes them.
        at: In seconds since 1970.
        times: How often it has come, until it had been away for `KEPT_SECONDS`.
    """

    parts: Mapping[str, str]
    at: float
    times: int = 1

    def to_json(self) -> dict[str, Any]:
        """The form in the status."""
        at = datetime.fromtimestamp(self.at, UTC).isoformat(timespec="milliseconds")
        return {**self.parts, "at": at, "times": self.times}


class LastErrors:
    """The last error of each place, such as a table. Used under its owner's lock."""

    def __init__(self) -> None:
        self._found: dict[Hashable, LastError] = {}

    def came(self, place: Hashable, parts: Mapping[str, str]) -> None:
        """An error is there; the same one again counts once more."""
        before = self.recent(place)
        same = before is not None and before.parts.get("code") == parts.get("code")
        times = before.times + 1 if before is not None and same else 1
        self._found[place] = LastError(parts, time.time(), times)

    def went(self, place: Hashable) -> None:
        """It was there until now."""
        if place in self._found:
            self._found[place] = replace(self._found[place], at=time.time())

    def recent(self, place: Hashable) -> LastError | None:
        """The error, unless it has been away for long."""
        found = self._found.get(place)
        return found if found is not None and time.time() - found.at < KEPT_SECONDS else None

    def take_over(self, place: Hashable, shown: Mapping[str, Any] | None, at: str) -> None:
        """What the status of an earlier run shows; `at` where it does not say when."""
        if shown:
            parts = {name: str(shown.get(name) or "") for name in ("code", "message", "hint")}
            when = datetime.fromisoformat(str(shown.get("at") or at)).timestamp()
            self._found[place] = LastError(parts, when, int(shown.get("times") or 1))
