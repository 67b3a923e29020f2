"""Makes the archive of Spark's classes with which the tests' virtual machines start, as `replicator warm-up` does; `make servers` runs it."""

from __future__ import annotations

from pathlib import Path

from replicator_runtime.spark.class_archive import archive_of, archive_options, make_archive
from tests.services.kafka.programs import java


def options() -> str:
    """Java options that use the archive, where there is one."""
    return archive_options(Path(java()), "")


def make() -> None:
    """Make the archive when there is none."""
    from tests.services.spark.session import settings

    make_archive(Path(java()), {**settings(), "spark.driver.extraJavaOptions": ""})
    print(f"  Spark's classes: {archive_of(Path(java()))}", flush=True)  # noqa: T201  # a setup step


if __name__ == "__main__":
    make()
