"""Exceptions that end an attempt although nothing failed."""

from __future__ import annotations


class Rejoin(Exception):  # noqa: N818 - a signal, not an error
    """Tables join or are tried again: the next attempt reads again from the saved offset, which was held for them."""


class SnapshotsStopped(Exception):  # noqa: N818 - a signal, not an error
    """The run is to stop; loaded chunks stay at the target, and the next start resumes the snapshot."""


class PlanOutOfDate(Exception):  # noqa: N818 - a signal, not an error
    """What follows from an edit is more than the accepted plan says, since the source was altered: it is planned again first."""
