"""Checks before a start whether rows can be streamed: whether the Storage Write API answers, and allows writes to tables.

It only reads: the default stream, which every table has, and permissions. It sends no row.
"""

from __future__ import annotations

from typing import Any, Final

from replicator_sdk.discovery.assessment import Finding, Severity
from replicator_sdk.schema import TableId
from replicator_target_bigquery.api.clients import write_client
from replicator_target_bigquery.api.diagnosis import is_transient
from replicator_target_bigquery.config import COMMITS, BigQueryConfig
from replicator_target_bigquery.schema.names import table_name
from replicator_target_bigquery.sql.table_ref import TableRef, default_stream

_SECONDS: Final = 30.0
_WRITES: Final = "bigquery.tables.updateData"
_DISABLED: Final = "SERVICE_DISABLED"


class StreamingProbe:
    """Checks streams. Used by one thread.

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
        """Whether the API answers at all; "no such table" is an answer.

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

    def writes(self, ref: TableRef, table: TableId, bigquery: Any) -> list[Finding]:
        """Whether a table may be streamed to; no finding for one that does not exist yet, or after `reach` found no answer.

        Raises:
            GoogleAPICallError: When a request is refused for another reason.
        """
        from google.api_core.exceptions import Forbidden, MethodNotAllowed, MethodNotImplemented, NotFound

        if not self._answers:
            return []
        try:
            bigquery.get_table(ref.id, retry=None, timeout=_SECONDS)
            self._ask(ref.path)
            allowed = bigquery.test_iam_permissions(ref.id, [_WRITES], retry=None, timeout=_SECONDS)
        except (
            NotFound,
            MethodNotAllowed,
            MethodNotImplemented,
        ):  # it does not exist yet, or an emulator lacks the method
            return []
        except Forbidden:
            return [_denied(ref, table)]
        return [] if _WRITES in allowed.get("permissions", ()) else [_denied(ref, table)]

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


def _denied(ref: TableRef, table: TableId) -> Finding:
    return Finding(
        "streaming_denied",
        Severity.ERROR,
        f"the service account may not stream rows into {ref.id}",
        "the table stops",
        f"grant it roles/bigquery.dataEditor on the dataset {ref.dataset}, which has {_WRITES}",
        table=table,
        code="RPL-6513",
    )
