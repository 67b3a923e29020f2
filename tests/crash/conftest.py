"""What tests of crashes share: the target without Spark, a replicating start to copy, and the number of kills."""

from __future__ import annotations

import functools
import random
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from deltalake import DeltaTable

from tests.crash.cellar import cellar_rows, install_cellar
from tests.crash.kills import AT_RANDOM, harms, kills
from tests.crash.places import Twin
from tests.crash.shop import TABLES, Shop
from tests.end_to_end.comparison import delta_rows
from tests.end_to_end.replicator import COMMAND, Ended, Replicator, Running

ENTRY = (sys.executable, str(Path(__file__).with_name("entry.py")))


def killed(running: Running, where: str, seconds: float = 120) -> None:
    """Wait until the run has killed itself at `where`."""
    ended = running.wait(seconds)
    assert ended.status == -signal.SIGKILL, (
        f"not killed at {where}, ended with {ended.status}:\n{ended.messages[-3000:]}"
    )
    kills.append(where)


def kill(running: Running) -> None:
    """Kill a run from outside, at whatever it is doing."""
    assert running.process.poll() is None, running.log.read_text(errors="replace")[-3000:]
    running.kill()
    kills.append(AT_RANDOM)


@dataclass
class Pair:
    """A shop and its replicator into the cellar or into Delta, in one folder."""

    shop: Shop
    replicator: Replicator
    chance: random.Random

    def start(self, *arguments: str, point: str = "") -> Running:
        """Start a run that kills itself at `point`."""
        return self.replicator.start(*arguments, REPLICATOR_FAILPOINTS=f"{point}=kill" if point else "")

    def kill_at(self, point: str) -> None:
        """A run that dies at `point`."""
        killed(self.start("--until-current", point=point), point)

    def trade(self, transactions: int = 5) -> None:
        """Change the shop."""
        for _ in range(transactions):
            self.shop.change(self.chance)

    def change_everything(self) -> None:
        """Rows, then structure, then rows again."""
        self.shop.run("INSERT INTO customer VALUES (5000, 'first', 1)")
        self.trade()
        self.shop.run("ALTER TABLE customer ADD COLUMN city TEXT DEFAULT 'Rome'")
        self.shop.notice()
        self.trade()

    def recover(self) -> Ended:
        """A run that does not die."""
        return self.replicator.until_current()

    def assert_mended(self, runs: int = 3) -> None:
        """Runs follow, with changes of rows and structure between them; after each, shop and copy are equal."""
        for number in range(runs):
            if number:
                self.trade()
                self.shop.run(f"ALTER TABLE customer ADD COLUMN run_{number} TEXT DEFAULT 'run'", "DELETE FROM note")
                self.trade()
            self.recover()
            assert self.differences() == {}, f"after {number + 1} runs"

    def differences(self) -> dict[str, int]:
        """Table → how many rows differ between shop and copy; empty when all are equal."""
        lost, doubled = self.lost(), self.doubled()
        return {table: count for table in TABLES if (count := lost[table] + doubled[table])}

    def lost(self) -> dict[str, int]:
        """Table → how many of the shop's rows the copy does not have."""
        return {table: (self.shop.rows(table) - self._copy(table)).total() for table in TABLES}

    def doubled(self) -> dict[str, int]:
        """Table → how many rows the copy has that the shop does not have, or not so often."""
        return {table: (self._copy(table) - self.shop.rows(table)).total() for table in TABLES}

    def assert_harm(self, twin: Twin, ended: Ended) -> None:
        """The run `ended` went as badly as the twin says."""
        if twin.harm in {"lost", "doubled"}:
            assert ended.status == 0, ended.messages[-3000:]
            harm = self.lost() if twin.harm == "lost" else self.doubled()
            assert sum(harm.values()) > 0, f"nothing {twin.harm} without {twin.broken!r}"
        else:
            assert ended.error.get("code") == twin.harm, ended.messages[-3000:]
        harms.append(twin.broken)

    def _copy(self, table: str) -> Counter[tuple[Any, ...]]:
        if self.replicator.target is not None:
            return cellar_rows(self.replicator.folder / "cellar", table)
        path = self.replicator.lake / "main" / table
        if not DeltaTable.is_deltatable(str(path)):
            return Counter()
        there = {field.name for field in DeltaTable(str(path)).schema().fields}
        # Without a column of the shop's each row is another one, of fewer values.
        return Counter(delta_rows(path, [name for name in self.shop.columns(table) if name in there]))


MakePair: TypeAlias = Callable[..., Pair]


@pytest.fixture(scope="session")
def cellar_package(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The PYTHONPATH of a process for which the cellar is an installed plugin."""
    return install_cellar(tmp_path_factory.mktemp("packages"))


@pytest.fixture
def make_pair(tmp_path: Path, cellar_package: str) -> MakePair:
    """Makes a shop and a replicator, `make_pair()` into the cellar, `make_pair(delta=True)` into Delta.

    `like` copies another pair's folder, `broken` takes a part of the recovery away (see `breakages`).
    """
    return functools.partial(_pair, tmp_path, cellar_package)


@pytest.fixture(scope="session")
def changed_pair(tmp_path_factory: pytest.TempPathFactory, cellar_package: str) -> Pair:
    """A pair that was equal before rows and structure of its shop changed. To be copied (`like`), not to be run."""
    pair = _pair(tmp_path_factory.mktemp("changed"), cellar_package)
    pair.recover()
    assert pair.differences() == {}
    pair.change_everything()
    return pair


def _pair(
    root: Path, package: str, *, delta: bool = False, like: Pair | None = None, broken: str = "", name: str = "pair"
) -> Pair:
    folder = root / name
    if like is not None:
        shutil.copytree(like.replicator.folder, folder)
    folder.mkdir(exist_ok=True)
    shop = Shop(folder / "shop.db")
    if like is None:
        shop.create()
    replicator = Replicator(
        folder,
        ("sqlite", {"path": str(shop.path)}),
        None if delta else ("cellar", {"path": str(folder / "cellar")}),
        settings={"batch": {"maxIntervalSeconds": 0.1}, "retries": {"maxDurationSeconds": 20, "delaySeconds": 0.2}},
        command=(*ENTRY, broken) if broken else COMMAND,
        environment={"PYTHONPATH": package},
    )
    return Pair(shop, replicator, random.Random(folder.name))
