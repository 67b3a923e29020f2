"""Repeats requests to Google; one policy for the driver and Spark's executors."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from replicator_sdk.schema import TableId
from replicator_target_bigquery.api.diagnosis import busy, failed_connection, failed_request, is_transient, silent
from replicator_target_bigquery.api.first_answer import PATIENCE, Service, is_answer

_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0


class Requester(Protocol):
    """Repeats requests: `RetryPolicy`, or the driver's `Jobs`."""

    def request(
        self,
        what: str,
        table: TableId | None,
        request: Callable[[], Any],
        *,
        place: str = "",
        service: Service = Service.BIGQUERY,
    ) -> Any:
        """The answer to a request that may be repeated, repeated while Google is busy or away."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Repeats requests, with pauses that grow and differ. Picklable; safe from any thread.

    Attributes:
        seconds: For how long a request is repeated.
        answered: The services that have answered; one that has not is given up earlier.
    """

    seconds: float
    answered: set[Service] = field(default_factory=set, compare=False)

    def request(
        self,
        what: str,
        table: TableId | None,
        request: Callable[[], Any],
        *,
        place: str = "",
        service: Service = Service.BIGQUERY,
        pause: Callable[[float], None] = time.sleep,
    ) -> Any:
        """The answer to a request that may be repeated, repeated while Google is busy or away.

        Args:
            what: What is requested; a message begins with it.
            table: The table concerned.
            request: Sends the request once.
            place: The project, dataset, table or bucket concerned.
            service: Who is asked.
            pause: Waits before the next try; raises when the run stops.

        Raises:
            ReplicatorError: As `failures` words it.
        """
        from google.api_core.exceptions import GoogleAPICallError
        from google.auth.exceptions import GoogleAuthError

        began, concerned, longest = time.monotonic(), str(table) if table else "", _FIRST_PAUSE
        while True:
            try:
                answer = request()
            except Exception as err:
                if is_answer(err):
                    self.answered.add(service)
                if not is_transient(err):
                    if isinstance(err, GoogleAPICallError | GoogleAuthError):
                        raise failed_request(err, what, concerned, place=place) from err
                    if (known := failed_connection(err, what, concerned)) is not None:
                        raise known from err
                    raise
                wait = random.uniform(0.5, 1.0) * longest  # noqa: S311 - spreads retries
                self._go_on(time.monotonic() + wait - began, what, concerned, service, err)
            else:
                self.answered.add(service)
                return answer
            longest = min(_LONGEST_PAUSE, 2.0 * longest)
            pause(wait)

    def _go_on(self, seconds: float, what: str, table: str, service: Service, err: Exception) -> None:
        """Raise when a request would have been repeated for too long."""
        if seconds > self.seconds:
            raise busy(what, table, self.seconds) from err
        if service not in self.answered and seconds > PATIENCE:
            raise silent(what, table, service.title, service.setting) from err
