"""State on Cloud Storage and on Azure: conditional creation decides, and faults of the server lose and repeat nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace

import fsspec
import pytest

from replicator_sdk.errors import FencedError, NeedsUserError
from replicator_state import ReplicatorDirectory
from replicator_state.storage.remote_folder import RemoteFolder
from tests.services.gcs.server import GcsServer
from tests.services.http_gate import Fault, HttpGate
from tests.state.stores import offset, sequences

FAULTS = [Fault(status=500), Fault(status=503), Fault(lose_answer=True), Fault(seconds=0.5)]


@dataclass(frozen=True)
class Store:
    """A server, a place on it, and how it answers the two creations of one name."""

    server: HttpGate
    scheme: str
    bucket: str
    write: str
    answers: list[int]

    def directory(self, retry_seconds: float) -> ReplicatorDirectory:
        return ReplicatorDirectory(f"{self.scheme}://{self.bucket}/state", "n", "shop", retry_seconds=retry_seconds)


@pytest.fixture(params=["gcs", "azure"])
def store(request: pytest.FixtureRequest) -> Store:
    if request.param == "gcs":
        bucket = request.getfixturevalue("gcs_bucket")
        return Store(request.getfixturevalue("gcs_server"), "gs", bucket, "POST", [200, 412])
    container = request.getfixturevalue("azure_container")
    return Store(request.getfixturevalue("azure_server"), "abfs", container, "PUT", [201, 409])


def _folder(scheme: str, bucket: str) -> RemoteFolder:
    return RemoteFolder(fsspec.filesystem(scheme), f"{bucket}/folder", scheme)


def test_a_name_that_is_taken_is_refused_by_the_server_itself(store: Store) -> None:
    folder = _folder(store.scheme, store.bucket)
    assert folder.exclusive
    folder.create("a", b"1")
    with pytest.raises(FileExistsError):
        folder.create("a", b"2")
    assert folder.read("a") == b"1"
    assert store.server.requests(store.write, "/a$") == store.answers


def test_a_server_that_ignores_the_condition_is_not_believed(gcs_server: GcsServer, gcs_bucket: str) -> None:
    gcs_server.ignores_conditions = True
    folder = _folder("gs", gcs_bucket)
    assert not folder.exclusive
    folder.create("a", b"1")
    with pytest.raises(FileExistsError):
        folder.create("a", b"2")
    assert folder.names() == ["a"], "the probe leaves nothing"


@pytest.mark.parametrize("method", ["", "GET", "DELETE"])
def test_a_run_that_meets_faults_in_any_kind_of_request_keeps_its_lease_and_its_offsets(
    store: Store, method: str
) -> None:
    directory = store.directory(30)
    held = directory.acquire("first")
    offsets, states = directory.offsets(held), directory.states(held).scoped("runtime")
    for number, fault in enumerate(FAULTS, 1):
        store.server.plan(replace(fault, method=method or store.write))
        states.put("k", str(number).encode())
        offsets.save(offset(number))
        held.renew()
    held.release()
    store.server.clear()
    later = store.directory(0)
    second = later.acquire("second")
    assert second.epoch == 2
    assert later.states(second).scoped("runtime").get("k") == b"4"
    assert sequences(later._generation_folder()) == [1, 2, 3, 4], "no offset was lost or saved twice"


def test_a_lost_answer_of_a_claim_is_not_taken_for_another_run(store: Store) -> None:
    directory = store.directory(30)
    assert directory._generation_folder().exclusive
    store.server.plan(Fault(store.write, lose_answer=True))
    held = directory.acquire("first")
    assert held.epoch == 1
    held.check()
    assert store.server.requests(store.write, "/epoch") == store.answers


def test_a_late_write_of_a_superseded_run_is_refused(store: Store) -> None:
    first = store.directory(30)
    held = first.acquire("first", ttl_seconds=0.3)
    offsets = first.offsets(held)
    offsets.save(offset(1))
    later = store.directory(30)
    second = later.acquire("second", wait_seconds=20)
    with pytest.raises(FencedError, match="RPL-7131"):
        offsets.save(offset(2))
    kept = later.offsets(second).latest()
    assert kept is not None
    assert kept.sequence_number == 1


def test_a_refused_right_is_the_users_business_and_is_not_retried(store: Store) -> None:
    store.server.plan(Fault(store.write, status=403, times=100))
    with pytest.raises(NeedsUserError, match="RPL-7104"):
        store.directory(0).acquire("first")
