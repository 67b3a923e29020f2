"""An unknown exception shows its type and place, never its text."""

from __future__ import annotations

from pathlib import Path

import pytest

from replicator_runtime.engine.run_state.error_policy import as_replicator_error, error_of_table
from replicator_runtime.engine.run_state.progress import error_view
from replicator_runtime.engine.run_state.unknown_errors import REPEATED, summary, unexpected
from replicator_sdk import TableId
from replicator_sdk.errors import RetryableError

VALUE = "ada@example.org"


def raised(error: Exception) -> Exception:
    """`error` with the place that raised it."""
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


def test_the_text_of_an_unknown_exception_may_hold_a_value_and_is_left_out() -> None:
    error = raised(ValueError(f"cannot convert {VALUE}"))
    shown = [
        summary(error),
        str(error_of_table(error, TableId("db", "t"), "1")),
        str(as_replicator_error(error)),
        str(error_view(error)),
        str(unexpected(error, 1)),
    ]
    assert all("ValueError" in text and f"{__name__}:" in text for text in shown), shown
    assert not [text for text in shown if VALUE in text]


def test_what_the_operating_system_says_is_shown(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        (tmp_path / "gone").read_text()
    assert summary(caught.value) == f"FileNotFoundError: No such file or directory ({tmp_path / 'gone'})"


def test_the_text_of_an_error_of_a_plugin_is_shown() -> None:
    error = RetryableError("the server is away", code="RPL-1")
    assert summary(error) == str(error)


def test_an_unknown_exception_that_comes_again_and_again_says_so_and_what_to_do() -> None:
    error = raised(KeyError("x"))
    assert "in a row" not in str(unexpected(error, REPEATED - 1))
    often = unexpected(error, REPEATED)
    assert f"{REPEATED} times in a row without progress" in str(often)
    assert "author of the plugin" in often.hint
