"""Turns what goes wrong in a plugin's driver into the SDK's errors, whose class says the recovery and whose hint says the next step.

A driver is a library that talks to the source or the target. Only the plugin knows its errors; what is done with them is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from replicator_sdk.errors import NeedsUserError, ReplicatorError
from replicator_sdk.schema import TableId

_DriverError = TypeVar("_DriverError", bound=Exception)


@contextmanager
def required_library(missing: NeedsUserError) -> Iterator[None]:
    """Run imports of a library that a plugin needs and that an extra installs.

    Import it at its first use: without it, the pipelines that do not need the plugin must still start.

    Args:
        missing: Its message names the library, its hint the command that installs it.

    Raises:
        NeedsUserError: `missing`, caused by the ImportError, when an import of the block fails.
    """
    try:
        yield
    except ImportError as error:
        raise missing from error


@contextmanager
def translated_errors(
    kinds: type[_DriverError] | tuple[type[_DriverError], ...], translate: Callable[[_DriverError], ReplicatorError]
) -> Iterator[None]:
    """Raise errors of the driver as `ReplicatorError`s; any other error of the block is raised unchanged.

    The driver's error is not printed as the cause: its text may hold the values of rows.

    Args:
        kinds: The classes of the driver's errors.
        translate: The error to raise for one of them.
    """
    try:
        yield
    except kinds as error:
        raise translate(error) from None


@contextmanager
def naming_table(table: TableId) -> Iterator[None]:
    """Name `table` in each `ReplicatorError` of the block that names none, so that the others go on when it fails."""
    try:
        yield
    except ReplicatorError as error:
        error.table = error.table or str(table)
        raise
