"""Random renames of tables with equal columns, whose rows say which table they were written to.

What happens depends on the moment, so that a seed makes no history again: `make soak` runs them.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.worker import run
from replicator_sdk.errors import FencedError
from tests.runtime.engine import in_memory_target

only_in_soak = pytest.mark.skipif(not os.environ.get("SOAK_ROUNDS"), reason="`make soak` runs it")
_FIRST = int(os.environ.get("SOAK_SEED") or 1)
SEEDS = range(_FIRST, _FIRST + 6)

_NAMES = [f"t{n}" for n in range(10)]
_PAUSES = (0.0, 0.0, 0.0, 0.02, 0.2, 0.5)


class Storm:
    """Tables that are renamed, replaced and written to at random.

    Args:
        execute: Commits statements, in one transaction where the source can.
        create: The statements that create a table of a name, with a key or without one.
        rename: The statements that give tables other names at once, by their former names.
        chance: What happens next.
        document: The pipeline.
        host: Its plugins.
        longer: An expression that is the column `v` with something after it.
    """

    def __init__(
        self,
        execute: Callable[[Sequence[str]], object],
        create: Callable[[str, str], list[str]],
        rename: Callable[[dict[str, str]], list[str]],
        chance: random.Random,
        document: dict[str, Any],
        host: Any,
        longer: str = "concat(v, '!')",
    ) -> None:
        self._execute, self._create, self._rename, self._chance = execute, create, rename, chance
        self._document, self._host, self._longer = document, host, longer
        self.kinds: dict[str, str] = {}
        self._created = 0
        self.history: list[str] = []
        for kind in ("key", "key", "key", "bag", "bag", "partitioned"):
            self.create(self._free(), kind)

    # ------------------------------------------------------------ what happens at the source

    def do(self, *statements: str) -> None:
        """Commit statements, and keep them for the message of a failure."""
        self.history.append("; ".join(statements))
        self._execute(statements)

    def create(self, name: str, kind: str) -> None:
        """Another table, whose rows no other table has."""
        self._created += 1
        self.kinds[name] = kind
        rows = ", ".join(f"({n}, 'table {self._created}')" for n in range(self._chance.choice([2, 60])))
        self.do(*self._create(name, kind), f"INSERT INTO {name} VALUES {rows}")

    def exchange(self) -> list[str]:
        """The statements by which two or three tables take each other's names."""
        names = self._chance.sample(sorted(self.kinds), self._chance.choice([2, 2, 3]))
        return self.rename(dict(pairwise([*names, names[0]])))

    def rename(self, names: dict[str, str]) -> list[str]:
        """The statements that rename tables."""
        kinds = {to: self.kinds.pop(name) for name, to in names.items()}
        self.kinds |= kinds
        return self._rename(names)

    def write(self) -> list[str]:
        """The statements that change some rows."""
        name, number = self._chance.choice(sorted(self.kinds)), self._chance.randrange(70)
        return [
            f"INSERT INTO {name} SELECT coalesce(max(id), 0) + 1, min(v) FROM {name}",
            f"UPDATE {name} SET v = {self._longer} WHERE id = {number}",
            f"DELETE FROM {name} WHERE id = {self._chance.randrange(70)}",
        ][: self._chance.choice([1, 2, 3])]

    def step(self) -> None:
        """One event, then perhaps some rows and a pause."""
        what = self._chance.choices(
            [self._mixed, self._burst, self._stepwise, self._replace, self._drop], [3, 2, 2, 2, 1]
        )
        what[0]()
        for _ in range(self._chance.randrange(3)):
            self.do(*self.write())
        time.sleep(self._chance.choice(_PAUSES))

    def _mixed(self) -> None:
        self.do(*self.write(), *self.exchange(), *self.write())

    def _burst(self) -> None:
        for _ in range(self._chance.randrange(2, 6)):
            self.do(*self.exchange())
            self.do(*self.write())

    def _stepwise(self) -> None:
        name, other = self._chance.sample(sorted(self.kinds), 2)
        for former, to in ((name, "x"), (other, name), ("x", other)):
            self.do(*self.rename({former: to}))
            time.sleep(self._chance.choice(_PAUSES))

    def _replace(self) -> None:
        name = self._chance.choice(sorted(self.kinds))
        kind = self.kinds[name]
        if len(self.kinds) > len(_NAMES) - 3:
            self.kinds.pop(name)
            self.do(f"DROP TABLE {name}")
            return
        self.do(*self.rename({name: self._free()}))
        time.sleep(self._chance.choice(_PAUSES))
        self.create(name, kind)

    def _drop(self) -> None:
        name = self._chance.choice(sorted(self.kinds))
        kind = self.kinds.pop(name)
        self.do(f"DROP TABLE {name}")
        self.create(self._chance.choice([name, self._free()]), kind)

    def _free(self) -> str:
        return self._chance.choice([name for name in _NAMES if name not in self.kinds])

    # ------------------------------------------------------------ the replicator meanwhile

    def steps(self, seconds: float) -> None:
        """Let things happen for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.step()

    def steps_during_runs(self, seconds: float, *, dying: float) -> None:
        """The same while the replicator runs, which dies at each step of the target with this chance."""
        chance, stop = random.Random(self._chance.random()), threading.Event()

        def fault(step: str, table: Any) -> None:
            if step in {"load", "loaded"}:
                time.sleep(chance.choice(_PAUSES))
            if chance.random() < dying:
                raise FencedError("the process dies", code="RPL-8001", table=str(table))

        errors: list[BaseException] = []

        def body() -> None:
            try:
                while not stop.is_set():
                    with suppress(FencedError):
                        run(build_pipeline(self._document, host=self._host), stop=stop)
            except BaseException as error:  # noqa: BLE001 - raised below
                errors.append(error)

        in_memory_target.STORAGE.fault = fault
        thread = threading.Thread(target=body)
        thread.start()
        try:
            self.steps(seconds)
        finally:
            stop.set()
            thread.join(120)
            in_memory_target.STORAGE.fault = lambda step, table: None
        if errors:
            raise errors[0]

    def run_until_equal(
        self, source: Callable[[], dict[str, list[Any]]], target: Callable[[], dict[str, list[Any]]]
    ) -> None:
        """Run three times; each table of the source is equal after the second run at the latest, and stays so."""
        for number in range(3):
            run(build_pipeline(self._document, host=self._host), until_current=True)
            here, there = source(), target()
            different = {
                name: ([r for r in here[name] if r not in found][:3], [r for r in found if r not in here[name]][:3])
                for name in here
                if here[name] != (found := there.get(name, []))
            }
            assert not (different and number), (different, self.history[-40:])

    def whole(
        self, source: Callable[[], dict[str, list[Any]]], target: Callable[[], dict[str, list[Any]]], seconds: float
    ) -> None:
        """Phases at random until so many seconds have passed: the replicator is stopped, runs, or dies again and again."""
        end = time.monotonic() + seconds
        in_memory_target.STORAGE.drops = True
        while time.monotonic() < end:
            if self._chance.random() < 0.3:
                self.steps(0.5)
            else:
                self.steps_during_runs(self._chance.choice([1.0, 3.0]), dying=self._chance.choice([0.0, 0.03]))
            self.run_until_equal(source, target)
