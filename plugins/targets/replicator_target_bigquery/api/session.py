"""The HTTP session of Google's clients."""

from __future__ import annotations

from typing import Any, Final

from google.auth.transport.requests import AuthorizedSession

_FIRST_SECONDS: Final = 15.0
_SECONDS: Final = 60.0


class Session(AuthorizedSession):
    """HTTP requests that all end: Google's clients send many without a limit. Safe from several threads."""

    def __init__(self, credentials: Any) -> None:
        super().__init__(credentials)  # type: ignore[no-untyped-call]
        self._has_answered = False

    def request(self, method: Any, url: Any, *args: Any, **kwargs: Any) -> Any:
        """Send a request; a server that sends nothing for a time, at first 15 seconds, then 60, does not answer."""
        most = _SECONDS if self._has_answered else _FIRST_SECONDS
        kwargs["timeout"] = _bounded(kwargs.get("timeout"), most)
        answer = super().request(method, url, *args, **kwargs)  # type: ignore[no-untyped-call]
        self._has_answered = True
        return answer


def _bounded(timeout: Any, most: float) -> Any:
    if isinstance(timeout, tuple):
        return tuple(_bounded(part, most) for part in timeout)
    return most if timeout is None else min(timeout, most)
