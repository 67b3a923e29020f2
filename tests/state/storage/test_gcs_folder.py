"""State on a Cloud Storage server: conditional creation decides, and faults of the server lose and repeat nothing."""

from __future__ import annotations

from dataclasses import replace

import fsspec
import pytest

from replicator_sdk.errors import FencedError, NeedsUserError
from replicator_state import ReplicatorDirectory
from replicator_state.storage.remote_folder import RemoteFolder
from tests.services.gcs.server import Fault, GcsServer
from tests.state.stores import offset, sequences

FAULTS = [Fault(status=500), Fault(status=503), Fault(lose_answer=True), Fault(seconds=0.5)]


def _folder(bucket: str) -> RemoteFolder:
    return RemoteFolder(fsspec.filesystem("gs"), f"{bucket}/folder", "gs")


def test_a_name_that_is_taken_is_refused_by_the_server_itself(gcs_server: GcsServer, gcs_bucket: str) -> None:
    folder = _folder(gcs_bucket)
    assert folder.exclusive
    folder.create("a", b"1")
    with pytest.raises(FileExistsError):
        folder.create("a", b"2")
    assert folder.read("a") == b"1"
    assert gcs_server.requests("POST", "/a$") == [200, 412]


def test_a_server_that_ignores_the_condition_is_not_believed(gcs_server: GcsServer, gcs_bucket: str) -> None:
    gcs_server.ignores_conditions = True
    folder = _folder(gcs_bucket)
    assert not folder.exclusive
    folder.create("a", b"1")
    with pytest.raises(FileExistsError):
        folder.create("a", b"2")
    assert folder.names() == ["a"], "the probe leaves nothing"


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_a_run_that_meets_faults_in_any_kind_of_request_keeps_its_lease_and_its_offsets(
    gcs_server: GcsServer, gcs_bucket: str, method: str
) -> None:
    directory = ReplicatorDirectory(f"gs://{gcs_bucket}/state", "n", "shop", retry_seconds=30)
    held = directory.acquire("first")
    store, states = directory.offsets(held), directory.states(held).scoped("runtime")
    for number, fault in enumerate(FAULTS, 1):
        gcs_server.plan(replace(fault, method=method))
        states.put("k", str(number).encode())
        store.save(offset(number))
        held.renew()
    held.release()
    gcs_server.clear()
    later = ReplicatorDirectory(f"gs://{gcs_bucket}/state", "n", "shop", retry_seconds=0)
    second = later.acquire("second")
    assert second.epoch == 2
    assert later.states(second).scoped("runtime").get("k") == b"4"
    assert sequences(later._generation_folder()) == [1, 2, 3, 4], "no offset was lost or saved twice"


def test_a_lost_answer_of_a_claim_is_not_taken_for_another_run(gcs_server: GcsServer, gcs_bucket: str) -> None:
    directory = ReplicatorDirectory(f"gs://{gcs_bucket}/state", "n", "shop", retry_seconds=30)
    assert directory._generation_folder().exclusive
    gcs_server.plan(Fault("POST", lose_answer=True))
    held = directory.acquire("first")
    assert held.epoch == 1
    held.check()
    assert gcs_server.requests("POST", "/epoch") == [200, 412]


def test_a_late_write_of_a_superseded_run_is_refused(gcs_bucket: str) -> None:
    first = ReplicatorDirectory(f"gs://{gcs_bucket}/state", "n", "shop")
    held = first.acquire("first", ttl_seconds=0.3)
    store = first.offsets(held)
    store.save(offset(1))
    later = ReplicatorDirectory(f"gs://{gcs_bucket}/state", "n", "shop")
    second = later.acquire("second", wait_seconds=20)
    with pytest.raises(FencedError, match="RPL-7131"):
        store.save(offset(2))
    kept = later.offsets(second).latest()
    assert kept is not None
    assert kept.sequence_number == 1


def test_a_refused_right_is_the_users_business_and_is_not_retried(gcs_server: GcsServer, gcs_bucket: str) -> None:
    directory = ReplicatorDirectory(f"gs://{gcs_bucket}/state", "n", "shop", retry_seconds=0)
    gcs_server.plan(Fault("POST", status=403, times=100))
    with pytest.raises(NeedsUserError, match="RPL-7104"):
        directory.acquire("first")
