"""How long and how often requests to Google are repeated; one policy for the driver and Spark's executors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from replicator_sdk.schema import TableId
from replicator_target_bigquery.failures import busy, failed_request, is_transient


class Asking(Protocol):
    """Whoever repeats requests: `Patience`, or the driver's `Jobs`."""

    def ask(self, what: str, table: TableId | None, request: Callable[[], Any], *, place: str = "") -> Any:
        """The answer to a request that may be repeated, repeated while Google is busy or away."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Repeats requests, with pauses that grow and differ. Picklable; safe from any thread.

    Attributes:
        seconds: For how long a request is repeated.
    """

    seconds: float

    def ask(self, what: str, table: TableId | None, request: Callable[[], Any], *, place: str = "") -> Any:
        """The answer to a request that may be repeated, repeated while Google is busy or away.

        Args:
            what: What is asked, to begin a message with.
            table: The table concerned.
            request: Asks once.
            place: The project, dataset, table or bucket concerned.

        Raises:
            ReplicatorError: As `failures` words it.
        """
        from google.api_core.exceptions import GoogleAPICallError, RetryError
        from google.api_core.retry import Retry
        from google.auth.exceptions import GoogleAuthError

        patient = Retry(predicate=is_transient, initial=0.5, maximum=30.0, multiplier=2.0, timeout=self.seconds)
        concerned = str(table) if table else ""
        try:
            return patient(request)()
        except RetryError as err:
            raise busy(what, concerned, self.seconds) from err
        except (GoogleAPICallError, GoogleAuthError) as err:
            if is_transient(err):
                raise busy(what, concerned, self.seconds) from err
            raise failed_request(err, what, concerned, place=place) from err
