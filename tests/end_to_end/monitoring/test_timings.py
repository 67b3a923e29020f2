"""`replicator run --timings` says where the time went: also of executors, of a run that fails, and of one that is stopped."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.end_to_end.replicator import Replicator


@pytest.fixture
def replicator(tmp_path: Path) -> Replicator:
    source = tmp_path / "shop.db"
    with closing(sqlite3.connect(source)) as database, database:
        database.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, secret TEXT)")
        database.executemany("INSERT INTO item VALUES (?, 'hidden value')", ((n,) for n in range(300)))
    return Replicator(tmp_path, ("sqlite", {"path": str(source), "chunkRows": 100}))


def test_each_step_of_a_run_is_listed_with_what_waited_for_it(replicator: Replicator, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    ended = replicator.run("--until-current", "--timings-file", str(trace))
    assert ended.status == 0, ended.messages
    found = ended.envelope["data"]["timings"]
    steps = {(one["name"], one["by"]): one for one in found["steps"]}
    assert {"python.start", "pipeline.load", "state.open", "copy.plan", "copy.load", "table.commit"} <= {
        name for name, _ in steps
    }
    assert steps["chunk.read", "executors"]["times"] >= 3
    assert steps["chunk.write", "executors"]["times"] == 3
    assert found["leftOut"] == 0
    assert all(one["own"] <= one["seconds"] + 0.01 for one in found["steps"])
    waits = {(one["name"], one["by"]): one["meanwhile"] for one in found["waits"]}
    assert "chunk.read" in waits["executors.wait", "snapshot"]
    assert "table.commit" in waits["copies.wait", "engine"]
    drawn = trace.read_text()
    assert len(json.loads(drawn)["traceEvents"]) > len(found["steps"])
    assert "hidden value" not in drawn + ended.messages


def test_a_run_that_fails_says_where_its_time_went(replicator: Replicator, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    (tmp_path / "shop.db").write_bytes(b"no database at all" * 100)
    ended = replicator.run("--until-current", "--timings-file", str(trace))
    assert ended.status != 0
    names = {event["name"] for event in json.loads(trace.read_text())["traceEvents"]}
    assert {"pipeline.load", "state.open"} <= names


def test_a_run_that_is_stopped_says_where_its_time_went(replicator: Replicator, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    running = replicator.start("--timings-file", str(trace))
    running.said("streaming")
    ended = running.stop()
    assert ended.envelope["data"]["timings"]["seconds"] > 0
    assert "changes.wait" in {event["name"] for event in json.loads(trace.read_text())["traceEvents"]}


def test_a_trace_that_cannot_be_written_does_not_fail_the_run(replicator: Replicator, tmp_path: Path) -> None:
    ended = replicator.run("--until-current", "--timings-file", str(tmp_path / "no" / "folder" / "t.json"))
    assert ended.status == 0
    assert ended.envelope["data"]["upToDate"]
    assert any("cannot be written" in warning for warning in ended.envelope["warnings"])
