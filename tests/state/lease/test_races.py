"""Six real processes at once: one winner of every epoch and of the lease, no offset lost or overwritten."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from replicator_state.lease.epochs import EpochRegister
from replicator_state.storage.local_folder import LocalFolder
from replicator_state.storage.remote_folder import RemoteFolder
from tests.state.processes import race, said
from tests.state.stores import PlainFileSystem, sequences

RACERS = 6


@pytest.mark.parametrize("kind", ["local", "plain"])
def test_of_six_processes_claiming_epochs_each_epoch_has_one_winner(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "1"
    with race(path, RACERS, "claim", kind, "60") as crowd:
        assert crowd.wait(400) == 0
    won = [[int(word) for word in words] for words in said(path, RACERS)]
    epochs = [epoch for own in won for epoch in own]
    assert len(set(epochs)) == len(epochs), "an epoch was won twice"
    assert len([own for own in won if own]) > 1, "there was a race"
    assert all(own == sorted(own) for own in won), "epochs only rise"
    print(f"{kind}: {len(epochs)} epochs, won {[len(own) for own in won]}")  # noqa: T201


@pytest.mark.parametrize("kind", ["local", "plain"])
def test_of_six_processes_starting_together_one_gets_the_lease_and_five_are_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "1"
    with race(path, RACERS, "lease", kind):
        deadline = time.monotonic() + 120
        while not all(said(path, RACERS)) and time.monotonic() < deadline:
            time.sleep(0.05)
        answers = [words[0] for words in said(path, RACERS) if words]
    assert answers.count("RPL-7130") == RACERS - 1, answers
    assert len([answer for answer in answers if answer.isdigit()]) == 1, answers


def test_six_processes_saving_at_once_lose_and_overwrite_nothing(tmp_path: Path) -> None:
    path = tmp_path / "1"
    with race(path, RACERS, "offsets", "local", "15", "{}000") as crowd:
        assert crowd.wait(400) == 0
    found = sequences(LocalFolder(path))
    assert sorted(found) == sorted(first * 1000 + n for first in range(RACERS) for n in range(15))
    for first in range(RACERS):
        own = [n for n in found if n // 1000 == first]
        assert own == sorted(own), "each writer's offsets are in its order"


def test_of_processes_racing_on_an_s3_server_fifty_epochs_have_one_winner_each(tmp_path: Path, s3_bucket: str) -> None:
    path = tmp_path / "1"
    with race(path, 3, "claim", f"s3://{s3_bucket}", "50") as crowd:
        assert crowd.wait(400) == 0
    won = [[int(word) for word in words] for words in said(path, 3)]
    epochs = [epoch for own in won for epoch in own]
    assert len(set(epochs)) == len(epochs), "an epoch was won twice"
    assert len(epochs) >= 50
    assert len([own for own in won if own]) > 1, "there was a race"


def test_of_three_processes_starting_together_on_an_s3_server_one_gets_the_lease(
    tmp_path: Path, s3_bucket: str
) -> None:
    path = tmp_path / "1"
    with race(path, 3, "lease", f"s3://{s3_bucket}"):
        deadline = time.monotonic() + 120
        while not all(said(path, 3)) and time.monotonic() < deadline:
            time.sleep(0.05)
        answers = [words[0] for words in said(path, 3) if words]
    assert sorted(answers) == ["1", "RPL-7130", "RPL-7130"]


class _Stepper:
    """Lets two contenders make their file system calls in a given order, one at a time."""

    def __init__(self, order: tuple[int, ...]) -> None:
        self._order = list(order)
        self._turn = threading.Condition()
        self._finished: set[int] = set()

    def step(self, who: int) -> None:
        """Wait for the turn of `who`."""
        with self._turn:
            self._turn.wait_for(lambda: self._next() in {who, None}, timeout=60)
            if self._order:
                self._order.pop(0)
            self._turn.notify_all()

    def finish(self, who: int) -> None:
        """`who` makes no call any more."""
        with self._turn:
            self._finished.add(who)
            self._turn.notify_all()

    def _next(self) -> int | None:
        while self._order and self._order[0] in self._finished:
            self._order.pop(0)
        return self._order[0] if self._order else None


class _Stepped:
    """A contender's view of a shared file system without exclusive creation, one step for each call."""

    def __init__(self, fs: Any, stepper: _Stepper, who: int) -> None:
        self._fs, self._stepper, self._who = fs, stepper, who

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._fs, name)
        if name not in {"pipe_file", "ls", "exists", "cat_file", "rm_file"}:
            return method

        def stepped(*arguments: Any, **options: Any) -> Any:
            self._stepper.step(self._who)
            return method(*arguments, **options)

        return stepped


Claim = Callable[[RemoteFolder, int], bool]


def _ours(folder: RemoteFolder, who: int) -> bool:
    return EpochRegister(folder).claim(1, f"contender {who}".encode())


def _look_then_write(folder: RemoteFolder, who: int) -> bool:
    """What fsspec's own `mode="create"` does where the file system has none."""
    if folder.exists("epoch.1"):
        return False
    folder.replace("epoch.1", f"contender {who}".encode())
    return True


def _winners(claim: Claim) -> Iterator[int]:
    """How many of two contenders win, for every order of their calls."""
    for places in combinations(range(10), 5):
        order = tuple(0 if i in places else 1 for i in range(10))
        stepper = _Stepper(order)
        fs = PlainFileSystem(skip_instance_cache=True)
        fs.store = {}  # type: ignore[misc]  # each order of calls on a store of its own
        results = [False, False]

        def contend(who: int, results: list[bool] = results, fs: Any = fs, stepper: _Stepper = stepper) -> None:
            try:
                results[who] = claim(RemoteFolder(_Stepped(fs, stepper, who), "/race", "test"), who)
            finally:
                stepper.finish(who)

        threads = [threading.Thread(target=contend, args=(who,)) for who in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        yield sum(results)


def test_without_exclusive_creation_no_order_of_calls_lets_two_win_an_epoch() -> None:
    winners = list(_winners(_ours))
    assert len(winners) == 252
    assert max(winners) == 1
    assert winners.count(1) > 100, "and mostly one wins"


def test_the_same_check_finds_two_winners_when_claims_only_look_first() -> None:
    assert max(_winners(_look_then_write)) == 2
