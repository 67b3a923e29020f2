"""Repeats requests to Google; one policy for the driver and Spark's executors."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from replicator_sdk.schema import TableId
from replicator_target_bigquery.api.diagnosis import busy, failed_connection, failed_request, is_transient

_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0


class Requester(Protocol):
    """Repeats requests: `RetryPolicy`, or the driver's `Jobs`."""

    def request(self, what: str, table: TableId | None, request: Callable[[], Any], *, place: str = "") -> Any:
        """The answer to a request that may be repeated, repeated while Google is busy or away."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Repeats requests, with pauses that grow and differ. Picklable; safe from any thread.

    Attributes:
        seconds: For how long a request is repeated.
    """

    seconds: float

    def request(
        self,
        what: str,
        table: TableId | None,
        request: Callable[[], Any],
        *,
        place: str = "",
        pause: Callable[[float], None] = time.sleep,
    ) -> Any:
        """The answer to a request that may be repeated, repeated while Google is busy or away.

        Args:
            what: What is requested; a message begins with it.
            table: The table concerned.
            request: Sends the request once.
            place: The project, dataset, table or bucket concerned.
            pause: Waits before the next try; raises when the run stops.

        Raises:
            ReplicatorError: As `failures` words it.
        """
        from google.api_core.exceptions import GoogleAPICallError
        from google.auth.exceptions import GoogleAuthError

        until, concerned, longest = time.monotonic() + self.seconds, str(table) if table else "", _FIRST_PAUSE
        while True:
            try:
                return request()
            except Exception as err:
                if not is_transient(err):
                    if isinstance(err, GoogleAPICallError | GoogleAuthError):
                        raise failed_request(err, what, concerned, place=place) from err
                    if (known := failed_connection(err, what, concerned)) is not None:
                        raise known from err
                    raise
                wait = random.uniform(0.5, 1.0) * longest  # noqa: S311 - spreads retries
                if time.monotonic() + wait > until:
                    raise busy(what, concerned, self.seconds) from err
            longest = min(_LONGEST_PAUSE, 2.0 * longest)
            pause(wait)
