"""Requests keep their order, begin or are withdrawn but never both, and end once."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from replicator_state import Outcome, OutcomeState, ReplicatorDirectory, RequestFolder
from replicator_state.storage.folder import Folder

DONE = Outcome(OutcomeState.DONE, datetime.now(UTC), "run r, epoch 1", ("shop.orders is copied again",))


@pytest.fixture
def requests(directory: ReplicatorDirectory) -> RequestFolder:
    return directory.requests()


def test_requests_wait_in_the_order_of_their_making_until_they_have_an_outcome(requests: RequestFolder) -> None:
    made = []
    for number in range(5):
        made.append(requests.submit("table.resync", {"tables": [f"t{number}"]}))
        time.sleep(0.002)  # within a millisecond the order is any
    assert requests.waiting() == [request.request_id for request in made]
    for request in made:
        assert requests.read(request.request_id) == request
        assert requests.begin(request.request_id, "run r, epoch 1")
        assert requests.is_begun(request.request_id)
        assert requests.outcome(request.request_id) is None
        requests.finish(request.request_id, DONE)
        assert requests.outcome(request.request_id) == DONE
    assert requests.waiting() == []
    history = requests.history()
    assert [entry.request for entry in history] == made[::-1]
    assert {entry.outcome for entry in history} == {DONE}
    assert len(requests.history(2)) == 2


def test_a_request_that_a_run_has_begun_is_begun_again_by_the_next_and_not_withdrawn(requests: RequestFolder) -> None:
    request = requests.submit("table.retry", {"tables": ["t"]})
    assert requests.begin(request.request_id, "run a, epoch 1")
    assert not requests.withdraw(request.request_id)
    assert requests.begin(request.request_id, "run b, epoch 2")
    assert requests.waiting() == [request.request_id]


def test_a_request_that_is_withdrawn_is_begun_by_no_run(requests: RequestFolder) -> None:
    request = requests.submit("table.retry", {"tables": ["t"]})
    assert requests.withdraw(request.request_id) is requests.exclusive
    assert requests.begin(request.request_id, "run a, epoch 1") is not requests.exclusive
    assert (requests.waiting() == []) is requests.exclusive


def test_of_withdrawing_and_beginning_at_once_one_wins(directory: ReplicatorDirectory) -> None:
    if not directory.requests().exclusive:
        pytest.skip("nothing is withdrawn there")
    for _ in range(20):
        request_id = directory.requests().submit("table.retry", {}).request_id
        with ThreadPoolExecutor(4) as pool:
            begun = [pool.submit(directory.requests().begin, request_id, "run a, epoch 1") for _ in range(2)]
            withdrawn = [pool.submit(directory.requests().withdraw, request_id) for _ in range(2)]
        assert {(all(one.result() for one in begun), any(one.result() for one in withdrawn))} <= {
            (True, False),
            (False, True),
        }
        assert len({one.result() for one in begun}) == len({one.result() for one in withdrawn}) == 1


def test_the_first_outcome_stays_where_creation_is_exclusive(requests: RequestFolder) -> None:
    request = requests.submit("table.retry", {})
    requests.finish(request.request_id, DONE)
    requests.finish(request.request_id, Outcome(OutcomeState.REFUSED, datetime.now(UTC), "run z", (), "RPL-1220", "no"))
    if requests.exclusive:
        assert requests.outcome(request.request_id) == DONE


def test_only_old_requests_that_ended_are_deleted(requests: RequestFolder) -> None:
    ended, open_ = (requests.submit("table.retry", {}) for _ in range(2))
    requests.begin(ended.request_id, "run a")
    requests.finish(ended.request_id, DONE)
    requests.begin(open_.request_id, "run a")
    requests.prune(timedelta(days=1))
    assert len(requests.history()) == 2
    requests.prune(timedelta(0))
    assert [entry.request_id for entry in requests.history()] == [open_.request_id]
    assert requests.waiting() == [open_.request_id]


def test_what_a_kill_left_of_a_deletion_is_deleted_later_and_never_waits(
    directory: ReplicatorDirectory, requests: RequestFolder
) -> None:
    ended = requests.submit("table.retry", {})
    requests.begin(ended.request_id, "run a")
    requests.finish(ended.request_id, DONE)
    folder: Folder = requests._folder
    folder.remove(f"{ended.request_id}.request")
    assert requests.waiting() == []
    assert requests.history() == []
    requests.prune(timedelta(0))
    assert folder.names() == []


def test_a_damaged_request_is_an_error_and_foreign_files_are_not_read(requests: RequestFolder) -> None:
    request = requests.submit("table.retry", {})
    folder = requests._folder
    folder.replace(f"{request.request_id}.request", b'{"id": 1}')
    folder.replace("notes.request", b"")
    with pytest.raises(ValueError, match="no request"):
        requests.read(request.request_id)
    assert requests.waiting() == [request.request_id]
    assert requests.history()[0].request is None


def test_requests_are_no_generation(directory: ReplicatorDirectory) -> None:
    directory.requests().submit("table.retry", {})
    assert directory.generations() == []


def test_what_is_recorded_is_in_the_history_and_never_waits(requests: RequestFolder) -> None:
    request = requests.record("plan.approve", {"plan": "abc"}, "plan abc is approved")
    assert requests.waiting() == []
    [entry] = requests.history()
    assert entry.request == request
    assert entry.outcome is not None
    assert (entry.outcome.state, entry.outcome.lines) == (OutcomeState.DONE, ("plan abc is approved",))
