"""Asks before something is lost."""

from __future__ import annotations

import sys

import typer

from replicator_runtime.cli.report import say
from replicator_sdk.errors import NeedsUserError


def confirm(lost: str) -> None:
    """Say what is lost, and ask whether it may be.

    Raises:
        NeedsUserError: RPL-1228 when it may not, or there is no terminal to ask at.
    """
    say(lost)
    if not (sys.stdin.isatty() and typer.confirm("Go on?", err=True)):
        raise NeedsUserError("it was not confirmed; nothing was changed", code="RPL-1228", hint="give --yes")
