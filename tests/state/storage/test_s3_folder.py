"""State on an S3 server: conditional writes decide, and faults of the server lose and repeat nothing."""

from __future__ import annotations

from dataclasses import replace

import fsspec
import pytest

from replicator_sdk.errors import NeedsUserError
from replicator_state import ReplicatorDirectory
from replicator_state.storage.folder import create_once
from replicator_state.storage.remote_folder import RemoteFolder
from replicator_state.storage.store_retry import StoreRetry
from tests.services.s3.server import Fault, S3Server
from tests.state.stores import offset, sequences

FAULTS = [
    Fault(status=500),
    Fault(status=503, times=2),
    Fault(lose_answer=True),
    Fault(seconds=0.5),
]


def _folder(bucket: str, name: str = "folder") -> RemoteFolder:
    return RemoteFolder(fsspec.filesystem("s3"), f"{bucket}/{name}", "s3")


def test_a_name_that_is_taken_is_refused_by_the_server_itself(s3_server: S3Server, s3_bucket: str) -> None:
    folder = _folder(s3_bucket)
    assert folder.exclusive
    folder.create("a", b"1")
    with pytest.raises(FileExistsError):
        folder.create("a", b"2")
    assert folder.read("a") == b"1"
    assert [status for _, status in s3_server.requests("PUT", "/a$")] == [200, 412]


def test_a_server_that_ignores_the_condition_is_not_believed(s3_server: S3Server, s3_bucket: str) -> None:
    s3_server.plan(Fault("PUT", ignore_condition=True, times=100))
    folder = _folder(s3_bucket)
    assert not folder.exclusive
    folder.create("a", b"1")
    with pytest.raises(FileExistsError):
        folder.create("a", b"2")
    assert folder.names() == ["a"], "the probe leaves nothing"


@pytest.mark.parametrize("method", ["PUT", "GET", "HEAD", "DELETE"])
def test_a_run_that_meets_faults_in_any_kind_of_request_keeps_its_lease_and_its_offsets(
    s3_server: S3Server, s3_bucket: str, method: str
) -> None:
    directory = ReplicatorDirectory(f"s3://{s3_bucket}/state", "n", "shop", retry_seconds=30)
    held = directory.acquire("first")
    store, states = directory.offsets(held), directory.states(held).scoped("runtime")
    for number, fault in enumerate(FAULTS, 1):
        s3_server.plan(replace(fault, method=method))
        states.put("k", str(number).encode())
        store.save(offset(number))
        held.renew()
        latest = store.latest()
        assert latest is not None
        assert latest.sequence_number == offset(number).sequence_number
    held.release()
    s3_server.clear()
    later = ReplicatorDirectory(f"s3://{s3_bucket}/state", "n", "shop", retry_seconds=0)
    second = later.acquire("second")
    assert second.epoch == 2
    assert later.states(second).scoped("runtime").get("k") == b"4"
    assert sequences(later._generation_folder()) == [1, 2, 3, 4], "no offset was lost or saved twice"


def test_a_file_of_another_process_is_read_after_a_listing_that_did_not_have_it(
    s3_server: S3Server, s3_bucket: str
) -> None:
    folder = _folder(s3_bucket)
    folder.create("a", b"1")
    assert folder.names() == ["a"]
    other = RemoteFolder(fsspec.filesystem("s3", skip_instance_cache=True), f"{s3_bucket}/folder", "s3")
    other.create("b", b"2")
    assert folder.read("b") == b"2"


def test_a_lost_answer_of_a_claim_is_not_taken_for_another_run(s3_server: S3Server, s3_bucket: str) -> None:
    directory = ReplicatorDirectory(f"s3://{s3_bucket}/state", "n", "shop", retry_seconds=30)
    s3_server.plan(Fault("PUT", "/epoch", lose_answer=True))
    held = directory.acquire("first")
    assert held.epoch == 1
    held.check()
    assert [status for _, status in s3_server.requests("PUT", "/epoch")] == [200, 412]


def test_content_of_another_writer_differs_from_a_repeated_write(s3_server: S3Server, s3_bucket: str) -> None:
    folder = _folder(s3_bucket)
    retry = StoreRetry(30, "s3")
    s3_server.plan(Fault("PUT", "/a$", lose_answer=True))
    retry.run("create", lambda: create_once(folder, "a", b"ours"))
    with pytest.raises(FileExistsError):
        retry.run("create", lambda: create_once(folder, "a", b"theirs"))


def test_a_refused_right_is_the_users_business_and_is_not_retried(s3_server: S3Server, s3_bucket: str) -> None:
    directory = ReplicatorDirectory(f"s3://{s3_bucket}/state", "n", "shop", retry_seconds=0)
    s3_server.plan(Fault("PUT", status=403, times=100))
    with pytest.raises(NeedsUserError, match="RPL-7104"):
        directory.acquire("first")
