"""What every test may ask for."""

from __future__ import annotations

pytest_plugins = ["tests.services.postgres_fixtures", "tests.services.spark_fixtures", "tests.services.network"]
