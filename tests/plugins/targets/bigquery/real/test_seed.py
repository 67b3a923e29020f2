"""Seed 001's examples, as beside the emulators; only the fixture `project` is another one. They are about mode `batch`."""

from __future__ import annotations

from tests.services.bigquery_service import Service

if Service.of_environment().mode == "batch":
    from tests.plugins.targets.bigquery.test_seed import *  # noqa: F403 - the very same claims
