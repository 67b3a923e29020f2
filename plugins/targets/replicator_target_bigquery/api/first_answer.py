"""Whether a service of Google's has answered yet: one that never does is not waited for as long as one that is away for a while.

An address of another protocol (TLS where there is none, or the reverse) or a port that only accepts fails like a service
that is away, and would be retried as long. So until a service has answered once it is given `PATIENCE` seconds only.
"""

from __future__ import annotations

import enum
from typing import Final

PATIENCE: Final = 30.0


class Service(enum.Enum):
    """A service of Google's: its name in messages, and the setting that has its address."""

    BIGQUERY = ("BigQuery", "apiEndpoint")
    STORAGE = ("Cloud Storage", "storageEndpoint")
    STREAMS = ("the Storage Write API", "storageWriteEndpoint")
    READS = ("the Storage Read API", "storageWriteEndpoint")

    @property
    def title(self) -> str:
        """Its name in messages."""
        return self.value[0]

    @property
    def setting(self) -> str:
        """The setting that has its address."""
        return self.value[1]


def is_answer(err: BaseException) -> bool:
    """Whether an error is the service's own answer, not that of a connection that could not be made or used."""
    from google.api_core.exceptions import GoogleAPICallError

    if not isinstance(err, GoogleAPICallError):
        return False
    if err.response is None or hasattr(err.response, "status_code"):  # ours after an answer; an answer of HTTP
        return True
    status = err.grpc_status_code
    return status is not None and status.name not in {"UNAVAILABLE", "DEADLINE_EXCEEDED", "UNKNOWN", "INTERNAL"}
