"""How many processes the tests have killed, and how many of these kills did harm without a part of the recovery."""

from __future__ import annotations

AT_RANDOM = "at random"

kills: list[str] = []
"""Where each was killed."""
harms: list[str] = []
"""Which part of the recovery was missing."""


def summary() -> str:
    """One line; empty when nothing was killed."""
    if not kills:
        return ""
    named = len({where for where in kills if where != AT_RANDOM})
    text = f"{len(kills)} processes killed: at {named} named places, {kills.count(AT_RANDOM)} times at random"
    return text + (
        f"; {len(harms)} kills did harm without one of {len(set(harms))} parts of the recovery" if harms else ""
    )
