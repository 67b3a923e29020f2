"""The type of an error says what follows it."""

from __future__ import annotations

import pytest

from replicator_runtime.engine.run_state.error_policy import Verdict, as_replicator_error, verdict
from replicator_sdk.errors import (
    BugError,
    ConfigError,
    DataError,
    FencedError,
    HistoryLostError,
    NeedsUserError,
    RetryableError,
    SchemaDriftError,
)

TABLE_ERRORS = [DataError, SchemaDriftError, NeedsUserError]


@pytest.mark.parametrize("error", [RetryableError("x", code="RPL-1"), OSError("x"), KeyError("x")])
def test_faults_and_unknown_exceptions_are_retried(error: Exception) -> None:
    """Any exception resets to the last saved offset."""
    assert verdict(error, isolate=True) is Verdict.RETRY


@pytest.mark.parametrize("kind", [FencedError, HistoryLostError, ConfigError, BugError])
def test_what_a_retry_cannot_fix_stops(kind: type[BugError]) -> None:
    assert verdict(kind("x", code="RPL-1", table="a.b"), isolate=True) is Verdict.STOP


@pytest.mark.parametrize("kind", TABLE_ERRORS)
def test_a_tables_own_error_sets_only_that_table_aside(kind: type[BugError]) -> None:
    assert verdict(kind("x", code="RPL-1", table="a.b"), isolate=True) is Verdict.TABLE
    assert verdict(kind("x", code="RPL-1", table="a.b"), isolate=False) is Verdict.STOP
    assert verdict(kind("x", code="RPL-1"), isolate=True) is Verdict.STOP


def test_an_unknown_exception_gets_a_code_and_a_next_step() -> None:
    wrapped = as_replicator_error(ValueError("odd"))
    assert wrapped.code == "RPL-9000"
    assert wrapped.hint
    known = RetryableError("x", code="RPL-1")
    assert as_replicator_error(known) is known


def test_a_library_that_is_not_there_is_not_waited_for() -> None:
    missing = ModuleNotFoundError("No module named 'orjson'", name="orjson")
    assert verdict(missing, isolate=True) is Verdict.STOP
    wrapped = as_replicator_error(missing)
    assert isinstance(wrapped, NeedsUserError)
    assert "orjson" in str(wrapped)
