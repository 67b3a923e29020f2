"""What tests from source to target share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crash.file_target import install_file_target
from tests.services.spark import kept_java


@pytest.fixture(autouse=True, scope="module")
def commands_share_java() -> Iterator[None]:
    """Commands wait for no new virtual machine; a module whose claim is about one has a fixture of this name that does nothing."""
    with kept_java.shared():
        yield


@pytest.fixture(scope="session")
def file_target_package(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The PYTHONPATH of a process for which the target `file`, which needs no Spark, is an installed plugin."""
    return install_file_target(tmp_path_factory.mktemp("packages"))
