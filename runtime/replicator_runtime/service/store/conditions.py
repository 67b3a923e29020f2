"""What a request asks of a stored document before it is changed: the headers `If-Match` and `If-None-Match`."""

from __future__ import annotations

import re

from replicator_runtime.service.problems import ProblemError

CHANGED_ELSEWHERE = "RPL-1505"
_TAG = re.compile(r'\s*(?:W/)?("[^"]*")\s*(?:,|$)')


class Condition:
    """Holds, or refuses the change.

    Args:
        match: `If-Match`; None when it was not sent.
        none_match: `If-None-Match`, likewise.
    """

    def __init__(self, match: str | None = None, none_match: str | None = None) -> None:
        self._match, self._none_match = match, none_match

    def check(self, etag: str | None) -> None:
        """Do nothing when it holds for the document of this ETag; None when there is no document.

        Raises:
            ProblemError: 412 RPL-1505.
        """
        if self._match is not None and (etag is None or not _names(self._match, etag)):
            raise changed_elsewhere("it was changed or deleted since it was read")
        if self._none_match is not None and etag is not None and _names(self._none_match, etag):
            raise changed_elsewhere("there is one of this name already")


def changed_elsewhere(why: str) -> ProblemError:
    """The refusal of a change that does not know the present version."""
    return ProblemError(
        412, CHANGED_ELSEWHERE, f"nothing was changed: {why}", hint="read it again, and decide what of both is kept"
    )


def _names(header: str, etag: str) -> bool:
    return header.strip() == "*" or etag in _TAG.findall(header)
