"""The smallest history that fails is found, and named in the error."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replicator_sdk.testing.failures import smallest as module
from replicator_sdk.testing.failures.smallest import as_json, can_happen, check_history, smallest
from replicator_sdk.testing.histories.history import History, load_case

CASE = load_case("add_column")


def has_city(history: History) -> bool:
    return "Ulm" in as_json(history)


def test_everything_that_the_failure_does_not_need_is_left_out() -> None:
    found = smallest(CASE, has_city)
    assert as_json(found) == '[[{"update": "customers", "where": {"id": 1}, "set": {"city": "Ulm"}}]]'


def test_the_number_of_tries_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TRIES", 3)
    tried: list[History] = []

    def fails(history: History) -> bool:
        tried.append(history)
        return False

    assert smallest(CASE, fails) == CASE
    assert len(tried) == 3


def test_the_error_names_the_smallest_history_that_fails_in_the_same_way() -> None:
    prefixes: list[str] = []

    def check(history: History, prefix: str) -> None:
        prefixes.append(prefix)
        if len(history.transactions) == 1:
            raise ValueError(prefix)
        assert not has_city(history)

    with pytest.raises(AssertionError) as caught:
        check_history(CASE, check)
    [note] = caught.value.__notes__
    assert note.startswith("smallest history: [[{")
    assert note.count("], [") == 1
    assert len(set(prefixes)) == len(prefixes) > 1


def test_a_check_that_passes_is_made_once() -> None:
    made: list[str] = []
    check_history(CASE, lambda _, prefix: made.append(prefix))
    assert made == [""]


@pytest.mark.parametrize("name", ["rename_key_column", "add_column"])
def test_a_smaller_history_is_one_that_a_database_accepts(name: str) -> None:
    """Without the step that makes a column, a later step fails in the kit, and possibly by the same type of error."""
    case = load_case(name)
    tried: list[History] = []

    def check(history: History, prefix: str) -> None:
        del prefix
        tried.append(history)
        raise KeyError(name)

    assert can_happen(case)
    assert not can_happen(replace(case, transactions=case.transactions[-1:]))
    with pytest.raises(KeyError):
        check_history(case, check)
    assert len(tried) > 1
    assert all(map(can_happen, tried))
