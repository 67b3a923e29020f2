"""Where state and tables are on Cloud Storage or on Azure, three runs after kills are equal; what a killed deletion left is no table."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.crash.object_store.pair import StoredPair, stored_pair
from tests.crash.object_store.stores import Store, on_azure, on_cloud_storage
from tests.crash.three_runs import ThreeRuns
from tests.services.azure.server import AzureServer
from tests.services.gcs.server import GcsServer
from tests.services.http_gate import Fault, HttpGate

_POINTS = ("delta.snapshot.whole_written", "delta.files.written", "delta.commit.before", "delta.commit.after")
_ZOMBIE_ENDS = {"RPL-4407", "RPL-7131", "RPL-8401"}
_SECONDS_TO_DELETE = 240.0

pytestmark = pytest.mark.timeout(1200)


@dataclass(frozen=True)
class Place:
    """A store, the proxy before it, and the method of a request that writes a commit."""

    store: Store
    gate: HttpGate
    write: str


@pytest.fixture(params=["gcs", "azure"])
def place(request: pytest.FixtureRequest) -> Place:
    """A new container, which this process and those of runs find."""
    found = request.getfixturevalue
    if request.param == "gcs":
        cloud: GcsServer = found("gcs_server")
        return Place(on_cloud_storage(cloud, found("gcs_bucket")), cloud, "POST")
    azure: AzureServer = found("azure_server")
    return Place(on_azure(azure, found("azure_container")), azure, "PUT")


@pytest.fixture
def pair(place: Place, tmp_path: Path) -> Iterator[StoredPair]:
    """A database and its replicator, whose state and tables are on the store."""
    with stored_pair(place.store, tmp_path) as made:
        yield made


def test_three_runs_after_kills_around_commits_and_a_late_run_are_equal(pair: StoredPair, place: Place) -> None:
    pair.kill_at(_POINTS[0])
    pair.run_until_current()
    assert pair.differences() == {}
    pair.stop_at("delta.commit.before")
    pair.change_rows()
    pair.run_until_current()
    assert pair.other.go_on() in _ZOMBIE_ENDS
    assert pair.differences() == {}
    for point in _POINTS[1:]:
        pair.change_rows()
        pair.kill_at(point)
        place.gate.plan(Fault(place.write, r"_delta_log/0+\d+\.json", lose_answer=True))
        ThreeRuns(pair, [pair]).check()


def test_three_runs_after_a_kill_while_a_dropped_tables_log_is_deleted_are_equal(
    pair: StoredPair, place: Place
) -> None:
    pair.run_until_current()
    pair.other.start(pair.document())
    place.gate.plan(Fault("DELETE", "note.*_delta_log", held=True))
    pair.create_again()
    until = time.monotonic() + _SECONDS_TO_DELETE
    while not place.gate.held:
        assert time.monotonic() < until, "nothing was deleted"
        time.sleep(0.1)
    pair.other.kill()
    place.gate.release()
    ThreeRuns(pair, [pair]).check()
