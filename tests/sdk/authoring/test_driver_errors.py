"""A missing library, an error of a driver and a table's error reach the operator as errors with a code and a next step."""

from __future__ import annotations

import traceback

import pytest

from replicator_sdk.authoring.driver_errors import naming_table, required_library, translated_errors
from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_sdk.schema import TableId

ORDERS = TableId("shop", "orders")


def unreachable(error: Exception) -> RetryableError:
    return RetryableError(f"{len(error.args)} parts", code="ACME-1", hint="check the network")


def test_a_library_that_is_not_installed_is_an_error_with_the_command_that_installs_it() -> None:
    missing = NeedsUserError("the source needs acme", code="ACME-2", hint="pip install acme")
    with pytest.raises(NeedsUserError, match="pip install acme") as raised, required_library(missing):
        import acme_is_not_installed  # type: ignore[import-not-found]  # noqa: F401
    assert isinstance(raised.value.__cause__, ImportError)


def test_other_errors_of_an_import_are_raised_unchanged() -> None:
    missing = NeedsUserError("the source needs acme", code="ACME-2", hint="pip install acme")
    with pytest.raises(ZeroDivisionError), required_library(missing):
        raise ZeroDivisionError


def test_errors_of_the_driver_alone_are_translated() -> None:
    with pytest.raises(RetryableError, match="2 parts"), translated_errors((ConnectionError, KeyError), unreachable):
        raise ConnectionResetError(104, "reset")
    with pytest.raises(ZeroDivisionError), translated_errors(ConnectionError, unreachable):
        raise ZeroDivisionError


def test_the_text_of_the_drivers_error_is_not_printed_with_the_translated_one() -> None:
    with pytest.raises(RetryableError) as raised, translated_errors(ValueError, unreachable):
        raise ValueError("Key (name)=(Erika) already exists")
    assert "Erika" not in "".join(traceback.format_exception(raised.value))


def test_an_error_names_the_table_that_was_read_unless_it_names_one() -> None:
    with pytest.raises(RetryableError) as raised, naming_table(ORDERS):
        raise RetryableError("gone", code="ACME-3")
    assert raised.value.table == "shop.orders"
    with pytest.raises(RetryableError) as raised, naming_table(ORDERS):
        raise RetryableError("gone", code="ACME-3", table="shop.customers")
    assert raised.value.table == "shop.customers"
