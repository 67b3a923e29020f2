"""The Spark session of one run: started when first asked for, and replaced when its Java virtual machine has ended."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

import structlog

from replicator_sdk.timeline import step, waiting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from replicator_runtime.config import Pipeline

log = structlog.get_logger()


class SparkArguments(TypedDict):
    """What a session of a pipeline is started with."""

    master: str
    conf: Mapping[str, str]
    packages: Sequence[str]
    cores: int | None
    memory_mb: int | None


def spark_of(pipeline: Pipeline) -> SparkArguments:
    """The arguments of `session_settings` and `build_session` for `pipeline`."""
    config, own = pipeline.config, pipeline.spark
    return SparkArguments(
        master=config.spark.master,
        conf={**own.conf, **config.spark.conf},
        packages=own.packages,
        cores=config.resources.vcores,
        memory_mb=config.resources.memory_mb,
    )


class SparkHandle:
    """Safe from any thread.

    Args:
        pipeline: Its settings are the session's.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._session: SparkSession | None = None
        self._lock = threading.RLock()

    def session(self) -> SparkSession:
        """The session, started at the first call."""
        with waiting("spark.wait"), self._lock:
            if self._session is None:
                from replicator_runtime.spark.session import build_session

                with step("spark.start"):
                    self._session = build_session(self._pipeline.config.name, **spark_of(self._pipeline))
            return self._session

    @property
    def is_dead(self) -> bool:
        """Whether the session's Java virtual machine has ended: what fails then is not the fault of one table."""
        session = self._session
        if session is None:
            return False
        from replicator_runtime.spark.session import is_dead

        return is_dead(session)

    def drop_dead(self) -> bool:
        """Forget a session whose Java virtual machine has ended, so that the next attempt starts one; returns whether it had."""
        with self._lock:
            if not self.is_dead:
                return False
            log.warning("spark.restart")
            self.stop()
            return True

    def stop(self) -> None:
        """Stop the session, if there is one."""
        with self._lock:
            if self._session is not None:
                from replicator_runtime.spark.session import stop_session

                with step("spark.stop"):
                    stop_session(self._session)
                self._session = None
