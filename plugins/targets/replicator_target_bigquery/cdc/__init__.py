"""Mode `cdc`: net changes streamed to BigQuery's own change ingestion, which applies them by key and sequence number.

The door is here; `docs/decisions/0011-bigquery-orders-by-epoch-first.md` says why replays and dead runs do no harm.
"""

from replicator_target_bigquery.cdc.appending import DefaultStreams
from replicator_target_bigquery.cdc.apply import ChangeStreaming
from replicator_target_bigquery.cdc.structure import CdcDDL, CdcSnapshotLoad, refuse_rename

__all__ = ["CdcDDL", "CdcSnapshotLoad", "ChangeStreaming", "DefaultStreams", "refuse_rename"]
