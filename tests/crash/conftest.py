"""What tests of crashes share: the target without Spark, a replicating start to copy, and the number of kills."""

from __future__ import annotations

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

from tests.crash.cellar import cellar_rows, install_cellar
from tests.crash.shop import TABLES, Shop
from tests.end_to_end.comparison import delta_rows
from tests.end_to_end.replicator import COMMAND, Ended, Replicator, Running

_kills: list[str] = []


def killed(running: Running, where: str, seconds: float = 120) -> None:
    """Wait until the run has killed itself at `where`."""
    ended = running.wait(seconds)
    assert ended.status == -signal.SIGKILL, (
        f"not killed at {where}, ended with {ended.status}:\n{ended.messages[-3000:]}"
    )
    _kills.append(where)


def kill(running: Running) -> None:
    """Kill a run from outside, at whatever it is doing."""
    assert running.process.poll() is None, running.log.read_text(errors="replace")[-3000:]
    running.kill()
    _kills.append("at random")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many kills there were."""
    if _kills:
        named = len({where for where in _kills if where != "at random"})
        text = f"{len(_kills)} processes killed: at {named} named places, {_kills.count('at random')} times at random"
        terminalreporter.write_line(text)


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

    def recover(self) -> Ended:
        """A run that does not die."""
        return self.replicator.until_current()

    def differences(self) -> dict[str, int]:
        """Table → how many rows differ between shop and copy; empty when all are equal."""
        found = {}
        for table in TABLES:
            source, copy = self.shop.rows(table), self._copy(table)
            if count := ((source - copy) + (copy - source)).total():
                found[table] = count
        return found

    def _copy(self, table: str) -> Counter[tuple[Any, ...]]:
        if self.replicator.target is not None:
            return cellar_rows(self.replicator.folder / "cellar", table)
        return Counter(delta_rows(self.replicator.lake / "main" / table, self.shop.columns(table)))


MakePair: TypeAlias = Callable[..., Pair]


@pytest.fixture(scope="session")
def cellar_package(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The PYTHONPATH of a process for which the cellar is an installed plugin."""
    return install_cellar(tmp_path_factory.mktemp("packages"))


@pytest.fixture
def make_pair(tmp_path: Path, cellar_package: str) -> MakePair:
    """Makes a shop and a replicator, `make_pair()` into the cellar, `make_pair(delta=True)` into Delta.

    `like` copies another pair's folder, `broken` takes a part of the recovery away (see `entry`).
    """

    def make(*, delta: bool = False, like: Pair | None = None, broken: str = "", name: str = "pair") -> Pair:
        folder = tmp_path / name
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
            command=(sys.executable, str(Path(__file__).with_name("entry.py")), broken) if broken else COMMAND,
            environment={"PYTHONPATH": cellar_package},
        )
        return Pair(shop, replicator, random.Random(folder.name))

    return make
