"""Chains of random histories with a stop after each: clean, in the middle of streaming, or by SIGKILL.

A chain is one replicator: it copies the tables, then meets a change of structure first, then anything. Every stop is followed
by more rounds, so at least three runs with changes and changes of structure come after it; the last rounds end cleanly.
"""

from __future__ import annotations

import importlib
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replicator_sdk.failpoint import registered
from tests.services.spark.session import SMALL
from tests.soak.history import LATER, OTHER, History
from tests.soak.runs import Runs
from tests.soak.sources import Source, rows_of
from tests.soak.targets import Target

Plugin = tuple[str, Mapping[str, Any]]
"""Name and properties."""

_CHAIN = 20
_FIRST = 2
"""So many rounds of a chain meet a change of structure first, while or after the tables are copied."""
_CLEAN_AT_THE_END = 3
_LINES = 80
_KILLED_SECONDS = 60.0
"""How long a run lasts that is killed before."""
_SECONDS_FOR_QUIET_CHANGES = 8.0
"""Postgres' log announces a change of structure with the next row only; the source asks the catalogue every few seconds."""


@dataclass
class Soak:
    """One source into one target.

    Args:
        source: The source; its tables are made by the chain.
        target: The target.
        folder: For state, logs and what the target keeps.
        seed: Of all choices.
        failpoint: What every run that is to kill itself has armed; when empty, a kill at any point of the engine, the state and
            the targets.
        without: The part of the recovery to run without (see `tests.crash.removed_recovery`), if any.
        plan: Stop and shape of each round, where they are not to be random.
    """

    source: Source
    target: Target
    folder: Path
    seed: int
    failpoint: str = ""
    without: str = ""
    plan: Sequence[tuple[str, str]] = ()
    stops: Counter[str] = field(default_factory=Counter)
    _done: list[str] = field(default_factory=list)

    def run(self, rounds: int) -> None:
        """Run so many rounds; every round that ends cleanly compares source and target.

        Raises:
            AssertionError: When they differ, or a run fails; with the seed and what was done last.
        """
        chance = random.Random(self.seed)
        history = History(chance, self.source.dialect)
        for transaction in history.create():
            self.source.execute(transaction)
        self.source.begin()
        runs = Runs(self.folder)
        try:
            for number in range(rounds):
                chain, link = divmod(number, _CHAIN)
                if link == 0:
                    runs.pipeline(self._document(history, chain, chance))
                ends = rounds - number <= _CLEAN_AT_THE_END or link >= _CHAIN - _CLEAN_AT_THE_END
                how, shape = self.plan[number] if self.plan else (_stop(chance, ends), _shape(link))
                self._note(f"--- round {number + 1} of {rounds}, seed {self.seed}: {how}")
                self._round(runs, history, chance, how, shape)
                self.stops[how] += 1
        except AssertionError as error:
            done = "\n".join(line[:110] for line in self._done[-_LINES:])
            raise AssertionError(f"seed {self.seed}\n{done}\n{error}\nlog: {runs.log}") from None
        finally:
            runs.kill()
            self.source.end()

    def _round(self, runs: Runs, history: History, chance: random.Random, how: str, shape: str) -> None:
        pending = list(history.transactions(shape))
        before = chance.randint(0, len(pending)) if how != "clean" else len(pending)
        self._execute(pending[:before], chance)
        if how == "clean":
            self.source.settle()
            runs.begin(without=self.without)
        elif how == "failpoint":
            failpoint = (
                self.failpoint or f"{chance.choice(sorted(_places(self.target.points)))}=kill@{chance.randint(1, 3)}"
            )
            self._note(failpoint)
            runs.begin(until_current=False, seconds=1.5, failpoints=failpoint, without=self.without)
        else:
            seconds = chance.uniform(0.2, 2.5)
            runs.begin(
                until_current=False, seconds=_KILLED_SECONDS if how == "killed" else seconds, without=self.without
            )
            runs.works()
        self._execute(pending[before:], chance, pause=0.4)
        if how == "killed":
            time.sleep(chance.uniform(0.0, 1.5))
            assert runs.process_id is not None, "the run ended before it was killed"
            runs.kill()
            return
        ended = runs.end()
        assert "error" not in ended, ended
        if how == "clean":
            assert ended.get("reached"), ended
            if compared_twice(self.source, self.target, history, runs, without=self.without):
                self.stops["compared twice"] += 1

    def _execute(self, transactions: list[list[str]], chance: random.Random, pause: float = 0.0) -> None:
        for transaction in transactions:
            time.sleep(chance.uniform(0, pause))
            if transaction:
                self._done.extend(transaction)
                self._done.append("COMMIT")
                self.source.execute(transaction)
            self.source.idle(chance)

    def _document(self, history: History, chain: int, chance: random.Random) -> Mapping[str, Any]:
        """The pipeline of a new replicator."""
        folder = self.folder / f"chain-{chain}"
        source, target = self.source.begin_replicator(chance), self.target.begin(folder)
        made = pipeline(f"soak{chain}", self.target.state(folder), source, target, history, batch_seconds=0.2)
        return {**with_databases(made, self.source), "spark": {"master": "local[2]", "conf": dict(self.target.spark)}}

    def _note(self, line: str) -> None:
        self._done.append(line)


def compared_twice(source: Source, target: Target, history: History, runs: Runs, *, without: str = "") -> bool:
    """Assert that all tables are equal; a change of structure that no row follows may arrive a moment after a run was current.

    Returns:
        Whether they were equal only after another run of some seconds.
    """
    if not differences(source, target, history):
        return False
    runs.begin(until_current=False, seconds=_SECONDS_FOR_QUIET_CHANGES, without=without)
    ended = runs.end()
    assert "error" not in ended, ended
    found = differences(source, target, history)
    assert not found, "\n".join(found)
    return True


def pipeline(
    name: str, state: Path | str, source: Plugin, target: Plugin, history: History, *, batch_seconds: float
) -> Mapping[str, Any]:
    """A pipeline of all tables of the history, also of those that come later."""
    tables = [table.name for table in history.tables if not table.name.startswith((LATER, OTHER))]
    stages = (("source", source, "cdcSource"), ("target", target, "cdcTarget"))
    return {
        "name": name,
        "offsetBasePath": str(state),
        "stages": [
            {"name": stage, "plugin": {"name": plugin[0], "type": kind, "properties": plugin[1]}}
            for stage, plugin, kind in stages
        ],
        "connections": [{"from": "source", "to": "target"}],
        "tables": [{"table": table} for table in [*tables, f"{LATER}*"]],
        "newTablesIntervalSeconds": 0.5,
        "retries": {"maxDurationSeconds": 120, "delaySeconds": 0.2},
        "batch": {"maxIntervalSeconds": batch_seconds},
        "spark": {"master": "local[2]", "conf": dict(SMALL)},
    }


def with_databases(made: Mapping[str, Any], source: Source) -> Mapping[str, Any]:
    """The pipeline, also of the database that the history creates and drops, where it does."""
    if not source.dialect.databases:
        return made
    entries = [{"database": source.schema, **entry} for entry in made["tables"]]
    return {
        **made,
        "tables": [*entries, {"database": source.other, "table": "*"}],
        "ddlBlacklist": [],  # which has DROP_DATABASE by default
    }


def differences(source: Source, target: Target, history: History) -> list[str]:
    """What differs, a line a table; a column may be at one side only until a row of the table follows its change."""
    lines = []
    for table in history.tables:
        schema, name = source.place(table.name)
        at_target = target.columns(schema, name)
        columns = [column for column in source.columns(table.name) if column in at_target]
        wanted = Counter(_texts(rows_of(source, table.name, columns)))
        found = Counter(_texts(target.rows(schema, name, columns)))
        if wanted != found:
            lines.append(
                f"{table.name} {columns}: {wanted.total()} rows at the source, {found.total()} at the target;"
                f" missing {_short(wanted - found)}, surplus {_short(found - wanted)}"
            )
    return lines


_STOPS = {"clean": 4, "stopped": 2, "failpoint": 2, "killed": 2}


def _stop(chance: random.Random, last_rounds: bool) -> str:
    return "clean" if last_rounds else chance.choices(list(_STOPS), weights=list(_STOPS.values()))[0]


def _shape(link: int) -> str:
    return "structure first" if link < _FIRST else ""


def _places(own: str) -> list[str]:
    """Where runs are killed: places of the engine, the state and the target, whose begin with `own`."""
    importlib.import_module("replicator_runtime.engine.worker")
    for plugin in ("bigquery.consumer", "delta.consumer", "iceberg.consumer", "iceberg.maintenance.steps"):
        importlib.import_module(f"replicator_target_{plugin}")
    others = {"bigquery.", "delta.", "iceberg."} - {own}
    # Renewals of a lease come too late for a round; "file" is a target of other tests.
    left_out = ("state.lease", "file.", "test.", *others)
    return [place for place in registered() if not place.startswith(left_out)]


def _texts(rows: list[tuple[Any, ...]]) -> list[tuple[str | None, ...]]:
    """The rows as text: BigQuery's interface has no other form for numbers."""
    return [tuple(None if value is None else str(value) for value in row) for row in rows]


def _short(rows: Counter[tuple[str | None, ...]]) -> str:
    some = "; ".join(str(tuple(v if v is None else v[:12] for v in row)) for row in list(rows)[:3])
    return f"{rows.total()} ({some})"
