"""What tests from source to target share."""

from __future__ import annotations

import pytest

from tests.crash.file_target import install_file_target


@pytest.fixture(scope="session")
def file_target_package(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The PYTHONPATH of a process for which the target `file`, which needs no Spark, is an installed plugin."""
    return install_file_target(tmp_path_factory.mktemp("packages"))
