"""Seed 001's examples, as beside the emulators; only the fixture `project` is another one."""

from __future__ import annotations

from tests.plugins.targets.bigquery.test_seed import *  # noqa: F403 - the very same claims
