"""Asks before something is lost."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import typer

from replicator_runtime.cli.report import say

if TYPE_CHECKING:
    from collections.abc import Sequence


def confirm(lost: str) -> None:
    """Say what is lost, and ask whether it may be.

    Raises:
        NeedsUserError: RPL-1228 when it may not, or there is no terminal to ask at.
    """
    from replicator_sdk.errors import NeedsUserError

    say(lost)
    if not (sys.stdin.isatty() and typer.confirm("Go on?", err=True)):
        raise NeedsUserError("it was not confirmed; nothing was changed", code="RPL-1228", hint="give --yes")


def lost_by_resync(tables: Sequence[str]) -> str:
    """What `table resync` asks about, here and of a service; as the others below."""
    return f"{', '.join(tables)}: what the target has is replaced, rows included that the source has deleted"


def lost_by_drop(tables: Sequence[str]) -> str:
    """Of `table drop`."""
    return f"{', '.join(tables)}: the copy at the target is deleted with all its rows and earlier versions"


def lost_by_replay(tables: Sequence[str]) -> str:
    """Of `dead-letters replay`; no tables are all."""
    what = ", ".join(tables) if tables else "every table with rows put aside"
    return f"{what} is copied again in place: until that has ended, readers of the target see a part of it"


LOST_BY_RESET: Final = "the rows of every table at the target are replaced, those included that the source has deleted"
