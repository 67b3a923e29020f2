"""Offsets order by file and position on one server, and by what was executed between servers."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator_sdk import Position
from replicator_sdk.errors import HistoryLostError
from replicator_source_mysql.binlog.dump.log_fingerprint import LogFingerprint
from replicator_source_mysql.gtid import GtidSet
from replicator_source_mysql.offset import MySqlOffset

_UUID = "aaaaaaaa-1111-2222-3333-bbbbbbbbbbbb"
_PLACES = st.tuples(st.integers(1, 1_200_000), st.integers(4, 2**40))


@given(st.lists(_PLACES, min_size=2, max_size=6))
def test_on_one_server_file_number_then_position_decide(places: list[tuple[int, int]]) -> None:
    """Also when the number has grown beyond its six digits."""
    offsets = [MySqlOffset(f"mysql-bin.{number:06d}", position, server="a") for number, position in places]
    assert [(o.file_number, o.position) for o in sorted(offsets)] == sorted(places)


def test_the_seeds_offsets_keep_their_order() -> None:
    positions = (1424, 1462, 1482, 1493, 1519, 1538, 1557, 1598)
    offsets = [MySqlOffset("mysql-bin.000003", position) for position in positions]
    assert all(a < b for a, b in itertools.pairwise(offsets))
    assert str(offsets[0]) == "mysql-bin.000003:1424"


def test_after_a_failover_the_number_of_transactions_decides() -> None:
    before = MySqlOffset("old-bin.000900", 5000, GtidSet.parse(f"{_UUID}:1-100"), "old")
    after = MySqlOffset("new-bin.000001", 200, GtidSet.parse(f"{_UUID}:1-101"), "new")
    same = MySqlOffset("new-bin.000001", 190, GtidSet.parse(f"{_UUID}:1-100"), "new")
    assert before < after
    assert not after < before
    assert not before < same
    assert not same < before
    assert before == same
    assert hash(before) == hash(same)
    assert before != after


def test_a_change_of_structure_that_a_table_has_is_known_again_in_another_servers_log() -> None:
    old, new = (
        MySqlOffset("b.000001", place, GtidSet.parse(f"{_UUID}:1-100"), server)
        for place, server in ((90, "old"), (70, "new"))
    )
    assert Position(new, 1) <= Position(old, 1)
    assert not Position(new, 2) <= Position(old, 1)
    assert not Position(new, 1) <= Position(old, 0)


def test_an_offset_survives_its_stored_forms() -> None:
    offset = MySqlOffset("b.000001", 99, GtidSet.parse(f"{_UUID}:1-3"), "srv", "b.000001:4")
    assert MySqlOffset.from_fields(dict(offset.fields())) == offset
    again = MySqlOffset.from_json(offset.to_json())
    assert (again, again.gtids, again.resume) == (offset, offset.gtids, offset.resume)
    assert again.reading_from == MySqlOffset("b.000001", 4, server="srv")


def test_fields_of_another_source_are_refused() -> None:
    with pytest.raises(HistoryLostError, match="RPL-3781"):
        MySqlOffset.from_fields({"lsn": b"0"})


def test_an_offset_comes_back_whole_from_the_state_store() -> None:
    """`fields` equality leaves GTIDs and `resume` out of comparisons, so each is looked at."""
    offset = MySqlOffset("binlog.000003", 1462, GtidSet.parse(f"{_UUID}:1-100"), _UUID, "binlog.000002:99")
    back = MySqlOffset.from_fields(offset.fields())
    assert (back, back.gtids, back.resume) == (offset, offset.gtids, "binlog.000002:99")
    again = MySqlOffset.from_json(offset.to_json())
    assert (again, again.gtids, again.resume) == (offset, offset.gtids, offset.resume)


def test_an_offset_of_an_earlier_version_is_read_and_proves_nothing() -> None:
    """Its file is not compared; the offsets that follow it have a proof."""
    offset = MySqlOffset("b.000001", 99, GtidSet.parse(f"{_UUID}:1-3"), "srv", "b.000001:4", "1700000000:4:0000002a")
    stored = {name: value for name, value in offset.fields().items() if name != "proof"}
    assert MySqlOffset.from_fields(offset.fields()).proof == offset.proof
    assert MySqlOffset.from_json(offset.to_json()).proof == offset.proof
    assert MySqlOffset.from_fields(stored).proof == ""
    assert MySqlOffset.from_json(offset.to_json()[:5]).proof == ""
    assert LogFingerprint.parse("") == LogFingerprint(0)
    assert LogFingerprint.parse(offset.proof) == LogFingerprint(1_700_000_000, 4, 42)


@pytest.mark.parametrize("text", ["", f"{_UUID}:1-3:7", f"{_UUID}:nightly:1", "0-1-5,2-1-9"])
def test_gtids_are_stored_in_the_servers_notation(text: str) -> None:
    """Offsets of earlier versions kept this text as it was."""
    fields = {
        "file": b"b.000001",
        "position": b"99",
        "gtid": text.encode(),
        "server": b"srv",
        "resume": b"",
        "proof": b"",
    }
    offset = MySqlOffset.from_fields(fields)
    assert offset.gtids.count == {"": 0, "0-1-5,2-1-9": 14}.get(text, offset.gtids.count)
    assert offset.fields() == fields
    assert offset.to_json() == ["b.000001", 99, text, "srv", "", ""]
    assert MySqlOffset.from_json(offset.to_json()).gtids == offset.gtids
