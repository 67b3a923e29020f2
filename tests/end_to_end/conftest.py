"""What tests from source to target share."""

from __future__ import annotations

import pytest

from tests.crash.cellar import install_cellar


@pytest.fixture(scope="session")
def cellar_package(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The PYTHONPATH of a process for which the cellar, a target without Spark, is an installed plugin."""
    return install_cellar(tmp_path_factory.mktemp("packages"))
