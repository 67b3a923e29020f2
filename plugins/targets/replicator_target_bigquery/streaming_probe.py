"""Asks before a start whether rows can be streamed: does the Storage Write API answer, and may tables be written by it?

Only questions are asked: for a table's default stream, which every table has, and for permissions. No row is sent.
"""

from __future__ import annotations

from typing import Any, Final

from replicator_sdk.assessment import Finding, Severity
from replicator_sdk.schema import TableId
from replicator_target_bigquery.client import write_client
from replicator_target_bigquery.config import COMMITS, BigQueryConfig
from replicator_target_bigquery.failures import is_transient
from replicator_target_bigquery.names import table_name
from replicator_target_bigquery.place import Place, default_stream

_SECONDS: Final = 30.0
_WRITES: Final = "bigquery.tables.updateData"
_DISABLED: Final = "SERVICE_DISABLED"


class StreamingProbe:
    """Asks about streams. Used by one thread.

    Raises:
        NeedsUserError: From every call, when the library is missing or there are no credentials.
    """

    def __init__(self, config: BigQueryConfig) -> None:
        self._config = config
        self._client: Any = None
        self._answers = True

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.transport.close()
            self._client = None

    def reach(self) -> list[Finding]:
        """Whether the API answers at all; that it knows no such table is an answer.

        Raises:
            GoogleAPICallError: When it refuses for another reason than that.
        """
        from google.api_core.exceptions import Forbidden, GoogleAPICallError, Unauthorized

        dataset = table_name(self._config.dataset_name or "replicator")
        try:
            self._ask(f"projects/{self._config.datasets_in}/datasets/{dataset}/tables/{COMMITS}")
        except Unauthorized:
            raise
        except GoogleAPICallError as err:
            if isinstance(err, Forbidden) and err.reason == _DISABLED:
                return [self._disabled()]
            if _is_away(err):
                self._answers = False
                return [self._unreachable()]
        return []

    def writes(self, place: Place, table: TableId, bigquery: Any) -> list[Finding]:
        """Whether a table may be streamed to; nothing of one that is not there yet, or after `reach` found no answer.

        Raises:
            GoogleAPICallError: When a question is refused for another reason.
        """
        from google.api_core.exceptions import Forbidden, MethodNotAllowed, MethodNotImplemented, NotFound

        if not self._answers:
            return []
        try:
            bigquery.get_table(place.id, retry=None, timeout=_SECONDS)
            self._ask(place.path)
            allowed = bigquery.test_iam_permissions(place.id, [_WRITES], retry=None, timeout=_SECONDS)
        except (
            NotFound,
            MethodNotAllowed,
            MethodNotImplemented,
        ):  # not there yet; or an emulator that knows no such question
            return []
        except Forbidden:
            return [_denied(place, table)]
        return [] if _WRITES in allowed.get("permissions", ()) else [_denied(place, table)]

    def _ask(self, table: str) -> None:
        """Look at the table's default stream."""
        if self._client is None:
            self._client = write_client(self._config)
        self._client.get_write_stream(name=default_stream(table), retry=None, timeout=_SECONDS)

    def _unreachable(self) -> Finding:
        where = self._config.storage_write_endpoint or "bigquerystorage.googleapis.com"
        return Finding(
            "streaming_unreachable",
            Severity.ERROR,
            f"the Storage Write API at {where} does not answer",
            "no change can be streamed",
            "check the network (it is gRPC, port 443) and `storageWriteEndpoint`, or use mode batch",
            code="RPL-6511",
        )

    def _disabled(self) -> Finding:
        return Finding(
            "streaming_disabled",
            Severity.ERROR,
            f"the Storage Write API is not enabled in project {self._config.project}",
            "no change can be streamed",
            "enable it, or use mode batch",
            fix=f"gcloud services enable bigquerystorage.googleapis.com --project={self._config.project}",
            code="RPL-6513",
        )


def _is_away(err: Exception) -> bool:
    from google.api_core.exceptions import MethodNotImplemented

    return is_transient(err) and not isinstance(err, MethodNotImplemented)


def _denied(place: Place, table: TableId) -> Finding:
    return Finding(
        "streaming_denied",
        Severity.ERROR,
        f"the service account may not stream rows into {place.id}",
        "the table stands still",
        f"grant it roles/bigquery.dataEditor on the dataset {place.dataset}, which has {_WRITES}",
        table=table,
        code="RPL-6513",
    )
