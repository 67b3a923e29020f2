"""What happens around a kill: three stages of rows, a change of structure, and rows; and where the kills are."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from replicator_sdk.testing.capabilities import Capabilities
from replicator_sdk.testing.histories.history import History, Step, parse_history

NEVER: Final = 10**9
"""A pass of a failpoint that no run comes to."""
STAGES: Final = (1, 2, 3)
_TABLES: dict[str, dict[str, Any]] = {
    "keyed": {"columns": {"id": "int64 not null", "name": "string"}, "key": ["id"]},
    "words": {"columns": {"word": "string"}},
}

Transactions = tuple[tuple[Step, ...], ...]


class Stages(Capabilities):
    """What the claims about kills of sources and of targets share."""

    kills_of_a_failpoint: ClassVar[int] = 6
    """At how many of its passes of each failpoint a process is killed: the first, the last, and some between."""

    random_kills: ClassVar[int] = 5
    """At how many lines of the plugin, chosen at random, a process is killed."""

    unreached_failpoints: ClassVar[frozenset[str]] = frozenset()
    """Failpoints of the plugin that no run of the kit passes, such as those of maintenance."""

    seconds: ClassVar[float] = 120.0
    """How long one process may take."""

    def _history(self) -> History:
        """All stages, one after another."""
        stages = [[*_rows(n), *self._structure(n), *_rows(n + 1)] for n in (10, 20, 30)]
        tables = {name: facts for name, facts in _TABLES.items() if self.supports_keyless or "key" in facts}
        transactions = [self._kept(transaction) for stage in stages for transaction in stage]
        return parse_history("killed", {"claim": "", "tables": tables, "transactions": transactions})

    def _kept(self, transaction: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The steps that the plugin can do."""
        limits = [step for step in transaction if self.supports_limit or "limit" not in step]
        return [step for step in limits if self.supports_keyless or next(iter(step.values())) != "words"]

    def _structure(self, number: int) -> list[list[dict[str, Any]]]:
        """Another change of structure in each stage, one that the plugin can follow; else none, but a transaction."""
        if number == 20 and self.supports_truncate:
            return [[{"truncate": "words" if self.supports_keyless else "keyed"}]]
        if self.supports_add_column:
            return [[{"add_column": "keyed", "name": f"more{number}", "type": "int64"}]]
        return [[{"insert": "keyed", "rows": [{"id": 1000 + number, "name": "no change"}]}]]


def stage(history: History, number: int) -> Transactions:
    """The transactions of one stage."""
    size = len(history.transactions) // len(STAGES)
    return history.transactions[size * (number - 1) : size * number]


def spread(count: int, wanted: int) -> list[int]:
    """At most `wanted` numbers from 1 to `count`, evenly spread."""
    if count <= wanted:
        return list(range(1, count + 1))
    return sorted({1 + i * (count - 1) // max(1, wanted - 1) for i in range(wanted)})


def _rows(number: int) -> list[list[dict[str, Any]]]:
    """Two transactions of rows of both tables, whose effect is seen when they are applied twice or not at all."""
    first: list[dict[str, Any]] = [
        {"insert": "keyed", "rows": [{"id": number * 10 + i, "name": f"n{i}"} for i in range(4)]},
        {"insert": "words", "rows": [{"word": f"w{number}"}] * 3},
    ]
    second: list[dict[str, Any]] = [
        {"update": "keyed", "where": {"id": number * 10}, "set": {"name": "changed"}},
        {"update": "keyed", "where": {"id": number * 10 + 1}, "set": {"id": number * 10 + 9}},
        {"delete": "keyed", "where": {"id": number * 10 + 2}},
        {"delete": "words", "where": {"word": f"w{number}"}, "limit": 1},
    ]
    return [first, second]
