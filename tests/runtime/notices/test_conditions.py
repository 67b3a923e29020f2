"""Someone is notified once that a condition holds, and once that it is over, however often it comes and goes meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from replicator_runtime.notices.conditions import Conditions, Key
from replicator_runtime.notices.messages import NAMED, message
from replicator_runtime.observability.next_steps import Subject, set_subject
from replicator_state import ReplicatorDirectory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from replicator_state import StateStore

ORDERS, ITEMS = Key("table_failing", "main.orders"), Key("table_failing", "main.items")
FAILS = {ORDERS: "RPL-4001: no disk"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StateStore]:
    directory = ReplicatorDirectory(str(tmp_path), "default", "shop")
    lease = directory.acquire("run1")
    yield directory.states(lease).scoped("runtime")
    lease.release()


class Notified:
    """One destination that gets every message at once."""

    def __init__(self, conditions: Conditions) -> None:
        self.conditions = conditions
        self.got: list[tuple[list[str], list[str]]] = []

    def look(self, now: float, found: dict[Key, str], *, may_end: bool = True, at_once: bool = False) -> None:
        self.conditions.update(now, found, may_end=may_end, at_once=at_once)
        began, ended = self.conditions.began(0, now), self.conditions.ended(0)
        if began or ended:
            self.got.append(([key.about for key in began], [key.about for key in ended]))
            self.conditions.was_notified(0, began, ended, now)


def test_one_message_when_it_holds_and_one_when_it_is_over() -> None:
    notified = Notified(Conditions(1))
    for now in range(0, 60, 2):
        notified.look(now, FAILS)
    for now in range(60, 200, 2):
        notified.look(now, {})
    assert notified.got == [(["main.orders"], []), ([], ["main.orders"])]


def test_what_has_held_for_long_when_it_is_found_is_notified_at_once() -> None:
    conditions = Conditions(1)
    conditions.update(0, FAILS, may_end=True)
    assert list(conditions.began(0, 0)) == []
    conditions.update(0, {**FAILS, ITEMS: "x"}, may_end=True, sure=(ITEMS,))
    assert list(conditions.began(0, 0)) == [ITEMS]


def test_what_is_over_within_seconds_is_not_notified() -> None:
    notified = Notified(Conditions(1))
    for now, found in ((0, FAILS), (2, FAILS), (4, {}), (40, {}), (100, {})):
        notified.look(now, found)
    assert notified.got == []


def test_what_comes_and_goes_is_notified_once_and_has_to_stay_away_for_longer_each_time() -> None:
    notified = Notified(Conditions(1))
    for now in range(0, 6000, 2):
        notified.look(now, FAILS if now % 100 < 10 and now < 3000 else {})
    assert notified.got == [(["main.orders"], []), ([], ["main.orders"])] * 3, "not one for each of the 30 times"


def test_while_nothing_is_known_nothing_is_over() -> None:
    notified = Notified(Conditions(1))
    for now in range(0, 20, 2):
        notified.look(now, FAILS)
    for now in range(20, 4000, 2):
        notified.look(now, {}, may_end=False)
    notified.look(4000, {})
    assert len(notified.got) == 1, "it may have been gone all that time, or not at all"
    conditions = notified.conditions
    conditions.update(4002, {}, may_end=True, at_once=True, unknown={"table_failing"})
    assert not conditions.ended(0)
    notified.look(4002, {}, at_once=True)
    assert notified.got[1:] == [([], ["main.orders"])]


def test_who_was_notified_is_known_after_any_number_of_restarts(store: StateStore) -> None:
    got = []
    for restart in range(50):
        conditions = Conditions(1)
        conditions.load(store)
        notified = Notified(conditions)
        for now in range(restart * 20, restart * 20 + 16, 2):
            notified.look(now, FAILS if now % 20 > 6 else {}, may_end=now % 20 > 6)
            conditions.save(store)
        got += notified.got
    assert got == [(["main.orders"], [])]


def test_what_did_not_arrive_is_notified_after_a_restart(store: StateStore) -> None:
    conditions = Conditions(2)
    conditions.update(0, FAILS, may_end=True)
    conditions.was_notified(0, [ORDERS], [], 6)
    conditions.save(store)
    later = Conditions(2)
    later.load(store)
    later.update(20, FAILS, may_end=True)
    assert not later.began(0, 20)
    assert set(later.began(1, 20)) == {ORDERS}


def test_the_stored_form_does_not_grow_with_time(store: StateStore) -> None:
    notified = Notified(Conditions(1))
    for now in range(0, 100_000, 250):
        notified.look(now, {Key("table_failing", f"main.t{now // 1000}"): "x"})
        notified.conditions.save(store)
    assert len(notified.conditions._all) < 60


def test_an_event_is_notified_once_and_never_over() -> None:
    conditions = Conditions(2)
    conditions.happened(0, Key("snapshot_done"), "3 tables")
    conditions.update(2, {}, may_end=True, at_once=True)
    assert list(conditions.began(0, 2)) == [Key("snapshot_done")]
    conditions.was_notified(0, [Key("snapshot_done")], [], 2)
    conditions.end_events(lambda number, _: number == 0, 4)
    assert not conditions.began(1, 4)
    assert not conditions.ended(0)


def test_objectives_that_are_broken_one_after_the_other_are_a_message_an_hour_also_over_restarts(
    store: StateStore,
) -> None:
    """A pipeline that is paused breaks those of a thousand tables for one reason, each at a minute of its own."""
    broken: dict[Key, str] = {}
    got = []
    for restart in range(10):
        conditions = Conditions(1)
        conditions.load(store)
        notified = Notified(conditions)
        for minute in range(restart * 25, restart * 25 + 25):
            broken[Key("objective_broken", f"main.t{minute:04}" if minute else "")] = "98 % instead of 99 %"
            for second in (0, 10):
                notified.look(minute * 60 + second, broken)
            conditions.save(store)
        got += notified.got
    assert got[0] == ([""], []), "that of the pipeline at once"
    assert got[1] == (["main.t0001"], [])
    assert [len(began) for began, _ in got[2:]] == [60] * (len(got) - 2)
    assert len(got) == 2 + 248 // 60


def test_runs_that_are_killed_again_and_again_are_a_message_an_hour(store: StateStore) -> None:
    got: list[str] = []
    for minute in range(180):
        conditions = Conditions(1)
        conditions.load(store)
        for _ in range(2):
            conditions.run_is_gone(minute * 60, f"run{minute}", f"run{minute} was last seen")
        conditions.update(minute * 60 + 2, {}, may_end=True)
        if began := conditions.began(0, minute * 60 + 2):
            got.append(message("shop", began, {}).body.splitlines()[1])
            conditions.was_notified(0, began, [], minute * 60 + 2)
        conditions.end_events(lambda *_: True, minute * 60 + 2)
        conditions.save(store)
    more = "; 60 runs since the last message"
    assert got == ["- run0 was last seen", f"- run60 was last seen{more}", f"- run120 was last seen{more}"]


def test_a_thousand_tables_are_one_message_of_a_few_lines() -> None:
    conditions = Conditions(1)
    conditions.update(
        0, {Key("table_failing", f"main.t{i:04}"): "RPL-4001: no disk" for i in range(1000)}, may_end=True
    )
    made = message("shop", conditions.began(0, 10), {})
    assert made.title == "replicator shop: 1,000 tables fail"
    lines = made.body.splitlines()
    assert lines[0] == "1,000 tables fail:"
    assert lines[1] == "- main.t0000: RPL-4001: no disk"
    assert lines[NAMED + 1] == "… and 990 more"
    assert len(lines) == NAMED + 3


def test_a_table_can_neither_address_people_nor_forge_lines() -> None:
    conditions = Conditions(1)
    name = "main.x\n<!channel> @all [click](https://evil.test) `rm`\x1b[31m"
    conditions.update(0, {Key("table_failing", name): "RPL-4001: no disk"}, may_end=True)
    body = message("shop", conditions.began(0, 10), {}).body
    assert not set("<>@[`\x1b") & set(body)
    assert "://" not in body
    assert len(body.splitlines()) == 3


def test_what_was_first_seen_by_a_clock_that_was_ahead_is_notified_all_the_same(store: StateStore) -> None:
    ahead = 1_000_000.0
    conditions = Conditions(1)
    conditions.update(ahead, FAILS, may_end=True)
    conditions.save(store)
    later = Conditions(1)
    later.load(store)
    notified = Notified(later)
    for now in range(0, 10, 2):
        notified.look(now, FAILS)
    assert notified.got == [(["main.orders"], [])]
    notified.look(ahead, {})
    for now in range(10, 60, 2):
        notified.look(now, {})
    assert notified.got[1:] == [([], ["main.orders"])]


def test_the_command_of_a_message_finds_a_replicator_of_another_namespace() -> None:
    conditions = Conditions(1)
    conditions.update(0, FAILS, may_end=True)
    assert message("eu/shop", conditions.began(0, 10), {}).body.endswith("\nSee: replicator status shop --namespace eu")
    assert message("shop", conditions.began(0, 10), {}).body.endswith("\nSee: replicator status shop")


def test_the_command_of_a_message_names_the_file_where_a_name_finds_nothing() -> None:
    conditions = Conditions(1)
    conditions.update(0, FAILS, may_end=True)
    set_subject(Subject("pipelines/shop.json"))
    try:
        body = message("shop", conditions.began(0, 10), {}, has_base=True).body
    finally:
        set_subject(Subject())
    assert body.endswith("\nSee: replicator status pipelines/shop.json")
