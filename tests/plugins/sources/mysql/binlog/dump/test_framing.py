from __future__ import annotations

import struct

import pytest

from replicator_sdk.errors import BugError, HistoryLostError, NeedsUserError
from replicator_source_mysql.binlog.dump.framing import Framer
from replicator_source_mysql.binlog.event import FilePosition, Kind
from tests.plugins.sources.mysql.binlog.event_bytes import event, format_description, packets, rotate, started

XID = struct.pack("<Q", 1)


@pytest.mark.parametrize("checksum", [True, False])
def test_bodies_end_before_the_checksum_and_positions_count_on(checksum: bool) -> None:
    size = 27 + (4 if checksum else 0)
    framer = started(checksum=checksum)
    events = framer.frame(
        packets(
            event(Kind.XID, XID, 4 + size, checksum=checksum), event(Kind.XID, XID, 4 + 2 * size, checksum=checksum)
        )
    )
    assert [events.body(rank) for rank in range(2)] == [XID, XID]
    assert [str(events.place(rank)) for rank in range(2)] == [f"log.000001:{4 + size}", f"log.000001:{4 + 2 * size}"]
    assert framer.place == FilePosition("log.000001", 4 + 2 * size)


def test_a_flipped_bit_is_an_error_with_the_events_position() -> None:
    framer = started()
    good, bad = event(Kind.XID, XID, 35), bytearray(event(Kind.XID, XID, 66))
    bad[22] ^= 4
    with pytest.raises(NeedsUserError, match=r"RPL-3707.*log\.000001:66"):
        framer.frame(packets(good, bytes(bad)))


@pytest.mark.parametrize("kind", [0, 1, 20, 43, 99, 172, 255])
def test_an_unknown_type_is_an_error_with_its_number_and_position(kind: int) -> None:
    with pytest.raises(BugError, match=rf"RPL-3702: unknown event type {kind} at log\.000001:35"):
        started().frame(packets(event(kind, XID, 35)))


def test_an_unknown_type_is_left_out_only_when_it_is_newer_and_marked_ignorable() -> None:
    later = event(Kind.XID, XID, 66)
    events = started().frame(packets(event(200, XID, 35, flags=0x80), later))
    assert events.kind.tolist() == [Kind.XID]
    assert events.position.tolist() == [66]
    with pytest.raises(BugError, match="RPL-3702"):
        started().frame(packets(event(99, XID, 35, flags=0x80), later))


def test_an_incident_says_that_history_is_lost() -> None:
    with pytest.raises(HistoryLostError, match="RPL-3708"):
        started().frame(packets(event(Kind.INCIDENT, b"\1\0\0", 30)))


def test_a_statement_format_load_is_refused() -> None:
    with pytest.raises(NeedsUserError, match=r"RPL-3709.*binlog_format=ROW"):
        started().frame(packets(event(Kind.EXECUTE_LOAD_QUERY, XID, 35)))


def test_positions_are_right_beyond_four_gib() -> None:
    end = 2**32 - 10
    framer = Framer(FilePosition("log.000001", end), has_checksum=True)
    framer.frame(packets(rotate("log.000001", end), format_description()))
    events = framer.frame(packets(event(Kind.XID, XID, end + 31), event(Kind.XID, XID, end + 62)))
    assert events.position.tolist() == [end + 31, end + 62]


def test_a_start_beyond_four_gib_reads_the_file_up_to_there_and_leaves_that_out() -> None:
    start = 2**32 + 100
    framer = Framer(FilePosition("log.000001", start), has_checksum=False)
    first = framer.frame(packets(rotate("log.000001", 4, checksum=False), format_description(256, checksum=False)))
    assert first.kind.tolist() == [Kind.ROTATE, Kind.FORMAT_DESCRIPTION]
    framer._position = start - 27  # four GiB of events later
    xids = [event(Kind.XID, XID, start + 27 * step, checksum=False) for step in (0, 1)]
    events = framer.frame(packets(*xids))
    assert events.position.tolist() == [start + 27]


def test_heartbeats_and_made_up_events_do_not_move_the_position() -> None:
    framer = started(position=500)
    events = framer.frame(packets(event(Kind.HEARTBEAT, b"log.000001", 900), event(Kind.XID, XID, 531)))
    assert events.position.tolist() == [500, 531]


def test_a_rotation_changes_the_file_of_what_follows() -> None:
    body = struct.pack("<Q", 4) + b"log.000002"
    framer = started()
    size = 19 + len(body) + 4
    events = framer.frame(
        packets(
            event(Kind.ROTATE, body, 4 + size),
            rotate("log.000002", 4),
            format_description(256),
            event(Kind.XID, XID, 287),
        )
    )
    assert [str(events.place(rank)) for rank in (0, 3)] == [f"log.000001:{4 + size}", "log.000002:287"]


def test_a_step_back_is_an_error() -> None:
    framer = Framer(FilePosition("log.000001", 1000), has_checksum=False)
    framer.frame(packets(rotate("log.000001", 1000, checksum=False), format_description(checksum=False)))
    with pytest.raises(BugError, match="RPL-3704"):
        framer.frame(packets(event(Kind.XID, XID, 900, checksum=False)))


def test_an_event_of_another_size_than_its_packet_is_an_error() -> None:
    with pytest.raises(BugError, match="RPL-3704"):
        started().frame(packets(event(Kind.XID, XID, 35) + b"x"))
    with pytest.raises(BugError, match="RPL-3704"):
        started().frame(packets(b"short"))


def test_checksums_can_be_switched_on_from_one_file_to_the_next() -> None:
    framer = started(checksum=False)
    body = struct.pack("<Q", 4) + b"log.000002"
    events = framer.frame(
        packets(
            event(Kind.ROTATE, body, 4 + 19 + len(body), checksum=False),
            rotate("log.000002", 4, checksum=False),
            format_description(256),
            event(Kind.XID, XID, 287),
        )
    )
    assert events.body(3) == XID
