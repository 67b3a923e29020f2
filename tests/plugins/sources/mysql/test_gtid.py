"""GTID sets and positions, compared with plain sets of numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator_sdk.errors import BugError
from replicator_source_mysql.gtid import Gtid, GtidPosition, GtidSet, GtidTrail, parse_gtids

_UUIDS = ("aaaaaaaa-1111-2222-3333-bbbbbbbbbbbb", "bbbbbbbb-1111-2222-3333-bbbbbbbbbbbb")
_MEMBERS = st.lists(st.tuples(st.sampled_from(_UUIDS), st.integers(1, 30)), max_size=40)


def set_of(members: list[tuple[str, int]]) -> GtidSet:
    found = GtidSet()
    for source, number in members:
        found.add(Gtid(source, number))
    return found


@given(_MEMBERS)
def test_a_set_holds_what_was_added_in_whatever_order(members: list[tuple[str, int]]) -> None:
    found = set_of(members)
    assert found.count == len(set(members))
    assert str(found) == str(set_of(sorted(members)))
    assert str(GtidSet.parse(str(found))) == str(found)


@given(_MEMBERS, _MEMBERS)
def test_a_set_covers_another_when_it_holds_every_member(
    one: list[tuple[str, int]], other: list[tuple[str, int]]
) -> None:
    assert set_of(one).covers(set_of(other)) == (set(one) >= set(other))


def test_the_servers_notation_is_read_with_line_breaks_tags_and_single_numbers() -> None:
    text = f"{_UUIDS[1]}:1-5,\n{_UUIDS[0]}:7:9-10:nightly:1-3"
    assert str(GtidSet.parse(text)) == f"{_UUIDS[0]}:7:9-10,{_UUIDS[0]}:nightly:1-3,{_UUIDS[1]}:1-5"
    assert parse_gtids(text.replace("\n", "")).count == 5 + 3 + 3


def test_a_mariadb_position_keeps_the_last_of_every_domain() -> None:
    position = parse_gtids("1-7-12,0-1-5")
    assert isinstance(position, GtidPosition)
    position.add(Gtid("0", 6, server=3))
    assert str(position) == "0-3-6,1-7-12"
    assert position.count == 18
    assert position.covers(GtidPosition.parse("0-3-6"))
    assert position.covers(GtidPosition.parse("0-1-5"))
    assert not position.covers(GtidPosition.parse("0-1-6"))  # as far, by another server's transaction
    assert not position.covers(GtidPosition.parse("2-1-1"))


def test_a_trail_has_the_progress_after_each_commit_and_leaves_the_start_alone() -> None:
    before = GtidSet.parse(f"{_UUIDS[0]}:1-3")
    trail = GtidTrail(before, [Gtid(_UUIDS[0], 4), None, Gtid(_UUIDS[0], 5)])
    assert [str(trail.after(i)) for i in range(3)] == [f"{_UUIDS[0]}:1-{n}" for n in (4, 4, 5)]
    assert str(before) == f"{_UUIDS[0]}:1-3"


@pytest.mark.parametrize("text", ["nonsense", "aaaa:1-2", "0-1"])
def test_what_is_no_list_of_gtids_is_refused(text: str) -> None:
    with pytest.raises(BugError, match="RPL-3780"):
        parse_gtids(text)
