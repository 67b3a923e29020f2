"""The examples of docs/seeds.md#001-replicator on the real service: only the fixture `project` differs. For mode `batch`."""

from __future__ import annotations

from tests.services.bigquery.real_service import Service

if Service.of_environment().mode == "batch":
    from tests.plugins.targets.bigquery.batch.test_worked_examples import *  # noqa: F403 - the very same claims
