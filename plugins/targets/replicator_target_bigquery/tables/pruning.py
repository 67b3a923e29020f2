"""Deletes old rows of the commit logs, which no run reads again: once in each interval and dataset."""

from __future__ import annotations

import json
import time
from typing import Final

from replicator_sdk.context import DeltaTargetContext
from replicator_sdk.schema import TableId
from replicator_target_bigquery.api.clients import Clients
from replicator_target_bigquery.api.jobs import Jobs
from replicator_target_bigquery.commit_log.statements import prune
from replicator_target_bigquery.config import BigQueryConfig
from replicator_target_bigquery.sql.table_ref import TableRef
from replicator_target_bigquery.tables.catalogue import Catalogue

_KEY: Final = "commits-pruned"
_RECENT: Final = 0.9  # of the interval: the tables of a dataset are due at different times


def prune_commits(config: BigQueryConfig, context: DeltaTargetContext, table: TableId, every_seconds: float) -> None:
    """Delete old rows from the commit log of the table's dataset, unless that was done within that time.

    One statement looks after all tables of a dataset; when it was run last is a state value.
    """
    ref = TableRef.of(table, config)
    pruned = json.loads(context.get_state(_KEY) or b"{}")
    if time.time() - pruned.get(ref.commits_id, 0.0) < _RECENT * every_seconds:
        return
    _prune(config, context, ref, table)
    context.put_state(_KEY, json.dumps({**pruned, ref.commits_id: time.time()}).encode())


def _prune(config: BigQueryConfig, context: DeltaTargetContext, ref: TableRef, table: TableId) -> None:
    clients = Clients(config)
    jobs = Jobs(clients.bigquery, config, context.metrics, lambda: context.is_stopping)
    try:
        if Catalogue(clients.bigquery, jobs, config).find(ref.commits_id, table) is not None:
            jobs.read(prune(ref), f"pruning {ref.commits_id}", None)
    finally:
        clients.close()
