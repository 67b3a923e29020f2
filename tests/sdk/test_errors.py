"""Errors say what, where and the next step, and survive the way from an executor."""

from __future__ import annotations

import pickle

import pytest

from replicator_sdk import errors
from replicator_sdk.errors import ConfigError, ReplicatorError

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ReplicatorError)]


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_says_what_where_and_the_next_step_also_after_pickling(kind: type[ReplicatorError]) -> None:
    error = kind("it broke", code="RPL-1234", hint="fix it", table="public.t", position="0/1")
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert type(one) is kind
        text = str(one)
        for part in ("RPL-1234", "it broke", "fix it") + (() if kind is ConfigError else ("public.t", "0/1")):
            assert part in text
        assert (one.code, one.hint) == (error.code, error.hint)


def test_a_config_error_names_the_place_in_the_json() -> None:
    error = ConfigError("unknown key", code="RPL-1000", path="stages[0].plugin")
    assert "stages[0].plugin" in str(pickle.loads(pickle.dumps(error)))


def test_every_recovery_has_its_own_exit_code_and_class() -> None:
    """A snapshot that is needed shows as retryable does, a table's lost history as what needs the user."""
    snapshots = (errors.SnapshotNeededError, errors.RowsRewrittenError)
    shared = (ReplicatorError, ConfigError, errors.BugError, *snapshots, errors.TableHistoryLostError)
    kinds = [k for k in KINDS if k not in shared]
    assert len({k.exit_code for k in kinds}) == len(kinds)
    assert len({k.error_class for k in KINDS if k is not ReplicatorError}) == len(KINDS) - 1
    assert [k for k in KINDS if k.retryable] == [errors.RetryableError, *snapshots]
