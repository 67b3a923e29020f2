"""Pairs of a SQLite database and its replicator."""

from __future__ import annotations

import functools
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.crash.command import COMMAND as WITHOUT
from tests.crash.sqlite.database import Database
from tests.crash.sqlite.pair import Pair
from tests.end_to_end.replicator import COMMAND, Replicator

MakePair: TypeAlias = Callable[..., Pair]


@pytest.fixture
def make_pair(tmp_path: Path, file_target_package: str) -> MakePair:
    """Makes a database and a replicator, `make_pair()` into the target `file`, `make_pair(delta=True)` into Delta.

    `like` copies another pair's folder, `removed` is the part of the recovery to run without (see `removed_recovery`).
    """
    return functools.partial(_pair, tmp_path, file_target_package)


@pytest.fixture(scope="session")
def make_pairs(tmp_path_factory: pytest.TempPathFactory, file_target_package: str) -> MakePair:
    """As `make_pair`, for pairs that several tests copy."""
    return functools.partial(_pair, tmp_path_factory.mktemp("pairs"), file_target_package)


@pytest.fixture(scope="session")
def changed_pair(tmp_path_factory: pytest.TempPathFactory, file_target_package: str) -> Pair:
    """A pair that was equal before rows and structure of its database changed. To be copied (`like`), not to be run."""
    pair = _pair(tmp_path_factory.mktemp("changed"), file_target_package)
    pair.run_until_current()
    assert pair.differences() == {}
    pair.change_everything()
    return pair


def _pair(
    root: Path, package: str, *, delta: bool = False, like: Pair | None = None, removed: str = "", name: str = "pair"
) -> Pair:
    folder = root / name
    if like is not None:
        shutil.copytree(like.replicator.folder, folder)
    folder.mkdir(exist_ok=True)
    database = Database(folder / "source.db")
    if like is None:
        database.create()
    replicator = Replicator(
        folder,
        ("sqlite", {"path": str(database.path)}),
        None if delta else ("file", {"path": str(folder / "target")}),
        settings={
            "batch": {"maxIntervalSeconds": 0.1},
            "retries": {"maxDurationSeconds": 20, "delaySeconds": 0.2},
            **({"edits": "apply"} if delta else {}),  # the lake of a copied pair is in another place
        },
        command=(*WITHOUT, removed) if removed else COMMAND,
        environment={} if delta else {"PYTHONPATH": package},
    )
    return Pair(database, replicator, random.Random(folder.name))
