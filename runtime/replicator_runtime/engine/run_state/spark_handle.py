"""The Spark session of one run: started when first asked for, and replaced when its Java virtual machine has ended."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

import structlog

from replicator_runtime.engine.run_state.unknown_errors import summary
from replicator_sdk.timeline import step, waiting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from replicator_runtime.config import Pipeline
    from replicator_runtime.spark.executors import SparkUsage

log = structlog.get_logger()
_LOOK_SECONDS = 0.05


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

    Attributes:
        usage: How many executors the session had when `look` was called last; None when there was no session.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._session: SparkSession | None = None
        self._lock = threading.RLock()
        self._was_asked = False
        self._beginning: threading.Thread | None = None
        self._is_unwanted = False
        self._failed: Exception | None = None
        self.usage: SparkUsage | None = None

    def look(self) -> None:
        """Ask the session for `usage`; starts none, and waits for none that is being started."""
        session = self._session
        if session is None:
            self.usage = None
            return
        from replicator_runtime.spark.executors import usage_of

        try:
            found = usage_of(session)
            self.usage = found if self._session is session else None  # it may have been stopped meanwhile
        except Exception as error:  # noqa: BLE001 - whoever works with the session finds out what is wrong
            self.usage = None
            log.debug("spark.not_asked", error=summary(error))

    def begin(self) -> None:
        """Start the session beside what the caller does next, where a plugin needs one; an error comes to the first who asks for it.

        Called once, by whoever calls `stop` in the end.
        """
        own = self._pipeline.spark
        if own.packages or own.conf:
            self._beginning = threading.Thread(target=self._begin, name="spark", daemon=True)
            self._beginning.start()

    def _begin(self) -> None:
        with self._lock:
            try:
                if self._session is None and not self._is_unwanted:
                    self._session = self._started()
            except Exception as err:  # noqa: BLE001 - raised where the session is needed
                self._failed = err

    def session(self) -> SparkSession:
        """The session, started at the first call unless it was begun before."""
        with waiting("spark.wait"), self._lock:
            self._was_asked = True
            failed, self._failed = self._failed, None
            if failed is not None:
                raise failed
            if self._session is None:
                self._session = self._started()
            return self._session

    def _started(self) -> SparkSession:
        from replicator_runtime.spark.session import build_session

        with step("spark.start"):
            return build_session(self._pipeline.config.name, **spark_of(self._pipeline))

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
        if self._session is None:
            return False  # without waiting for one that is being started
        self._give_up()  # its thread may still wait for the lock
        with self._lock:
            if not self.is_dead:
                return False
            log.warning("spark.restart")
            self.stop()
            return True

    def stop(self) -> None:
        """Stop the session, if there is one; one that was begun and that no one has asked for is given up at once."""
        self._give_up()
        with self._lock:
            if self._session is not None:
                from replicator_runtime.spark.session import stop_session

                with step("spark.stop"):
                    stop_session(self._session)
                self._session = self.usage = None

    def stop_unasked(self) -> None:
        """As `stop`, but for a session that was asked for; the next who asks has another one started."""
        if not self._was_asked:
            self.stop()

    def _give_up(self) -> None:
        beginning, self._beginning = self._beginning, None
        if beginning is None:
            return
        self._is_unwanted = True
        from replicator_runtime.spark.session import end_starting_java

        while beginning.is_alive():
            if not self._was_asked:
                end_starting_java()
            beginning.join(_LOOK_SECONDS)
        self._failed, self._is_unwanted = None, False
