"""Jobs that run exactly once: the identifier is computed from what a job does, so that it is found after a lost answer.

An identifier ends in an attempt number. BigQuery never runs one identifier twice, so inserting it again either starts the
job or reports that it exists; a job that *failed* has used its identifier up, and only then the next number is used.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from replicator_sdk.context import Metrics
from replicator_sdk.errors import RetryableError
from replicator_sdk.schema import TableId
from replicator_sdk.timeline import waiting
from replicator_target_bigquery.api.diagnosis import failed_job, is_passing
from replicator_target_bigquery.api.first_answer import Service
from replicator_target_bigquery.api.retry import RetryPolicy
from replicator_target_bigquery.config import BigQueryConfig

if TYPE_CHECKING:
    from google.cloud import bigquery

Job = Any  # a QueryJob or LoadJob
_TRIES: Final = 4  # own jobs that fail for a temporary reason before the whole batch is tried again
_REQUEST_SECONDS: Final = 60.0
_GRACE_SECONDS: Final = 10.0  # what a statement or a request that is repeated may still take once the run is to stop
_LOOK_SECONDS: Final = 0.25
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]")


def job_name(*parts: str, of: str) -> str:
    """An identifier: readable parts, and a digest of everything that determines the job."""
    readable = "_".join(_UNSAFE.sub("-", part) for part in parts)[:900]
    return f"replicator_{readable}_{hashlib.sha256(of.encode()).hexdigest()[:16]}"


class Jobs:
    """Runs jobs, repeats requests, counts what they cost. Safe from several threads.

    Args:
        client: Google's.
        config: The settings.
        metrics: Where to count.
        stopping: Whether the run is to stop: what is under way may still end for a few seconds, but nothing waits longer.
    """

    def __init__(
        self, client: Any, config: BigQueryConfig, metrics: Metrics, stopping: Callable[[], bool] = lambda: False
    ) -> None:
        self._client = client
        self._config = config
        self._metrics = metrics
        self._retries = RetryPolicy(config.retry_seconds)
        self._stopping = stopping
        self._stopped = threading.Event()
        self._asked_to_stop = math.inf
        self._uncertain: set[str] = set()  # jobs that were requested without an answer

    def stop(self) -> None:
        """End every wait."""
        self._stopped.set()

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` was called, or the run was asked to stop some seconds ago."""
        return self._stopped.is_set() or (self.is_stopping and time.monotonic() - self._asked_to_stop > _GRACE_SECONDS)

    @property
    def is_stopping(self) -> bool:
        """Whether the run is to stop."""
        if self._asked_to_stop == math.inf and self._stopping():
            self._asked_to_stop = time.monotonic()
        return self._stopped.is_set() or self._asked_to_stop < math.inf

    def pause(self, seconds: float) -> None:
        """Wait until the time is over or `is_stopped` holds."""
        self._wait_for(seconds, lambda: self.is_stopped)

    def rest(self, seconds: float) -> None:
        """Wait until the time is over or the run is to stop."""
        self._wait_for(seconds, lambda: self.is_stopping)

    @contextmanager
    def cancelling(self, cancel: Callable[[], Any]) -> Iterator[None]:
        """While the block runs, call `cancel` once `is_stopped` holds."""
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(_LOOK_SECONDS):
                if self.is_stopped:
                    cancel()
                    return

        threading.Thread(target=watch, daemon=True, name="bigquery-cancel").start()
        try:
            yield
        finally:
            ended.set()

    def _wait_for(self, seconds: float, ended: Callable[[], bool]) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not ended():
            self._stopped.wait(min(left, _LOOK_SECONDS))

    def has_answered(self, service: Service) -> bool:
        """Whether the service has answered in this run."""
        return service in self._retries.answered

    def note_answer(self, service: Service) -> None:
        """Note that the service answers."""
        self._retries.answered.add(service)

    def request(
        self,
        what: str,
        table: TableId | None,
        request: Callable[[], Any],
        *,
        place: str = "",
        service: Service = Service.BIGQUERY,
    ) -> Any:
        """The answer to a request that may be repeated, repeated while BigQuery is busy or away.

        Raises:
            ReplicatorError: As `failures` words it.
        """

        def pause(seconds: float) -> None:
            self.pause(seconds)
            if self.is_stopped:
                raise RetryableError(
                    f"{what} did not succeed before the run stopped",
                    code="RPL-6537",
                    table=str(table or ""),
                    hint="nothing to do: the next run does it again",
                )

        return self._retries.request(what, table, request, place=place, service=service, pause=pause)

    def query(self, name: str, sql: str, what: str, table: TableId) -> list[Any]:
        """Run a statement that must not run twice, and return its rows."""
        from google.cloud import bigquery

        base = job_name(name, of=f"{name}\n{sql}")
        config = bigquery.QueryJobConfig(labels=self._labels(), use_legacy_sql=False)

        def begin(job_id: str) -> Job:
            return self._client.query(
                sql, job_config=config, job_id=job_id, retry=None, job_retry=None, timeout=_REQUEST_SECONDS
            )

        with waiting("job.wait", what):
            job = self._settle(base, begin, what, table)
        # The rows are read by separate requests.
        found: list[Any] = self.request(what, table, lambda: list(job.result(retry=None, timeout=_REQUEST_SECONDS)))
        return found

    def read(self, sql: str, what: str, table: TableId | None) -> list[Any]:
        """Run a statement that may run twice, and return its rows."""
        from google.cloud import bigquery

        config = bigquery.QueryJobConfig(labels=self._labels(), use_legacy_sql=False)

        def once() -> list[Any]:
            job = self._client.query(sql, job_config=config, retry=None, job_retry=None, timeout=_REQUEST_SECONDS)
            self._wait(job, what, table)
            rows = list(job.result(retry=None, timeout=_REQUEST_SECONDS))
            self._count(job, table)
            return rows

        with waiting("job.wait", what):
            return list(self.request(what, table, once))

    def load(
        self, name: str, uris: list[str], into: str, config: bigquery.LoadJobConfig, what: str, table: TableId
    ) -> bigquery.LoadJob:
        """Run a load job to its end; one that was started under this name before is found instead."""
        config.labels = {**self._labels(), **config.labels}

        def begin(job_id: str) -> Job:
            return self._client.load_table_from_uri(
                uris, into, job_id=job_id, job_config=config, retry=None, timeout=_REQUEST_SECONDS
            )

        with waiting("job.wait", what):
            done: bigquery.LoadJob = self._settle(name, begin, what, table)
        return done

    def use_up(self, name: str, what: str, table: TableId) -> bigquery.LoadJob | None:
        """Use a job name up, so that no load can run under it any more; returns the load that ran, or None.

        Each attempt's identifier is used up by a statement that does nothing, unless a load job had it first.
        """
        for attempt in itertools.count():
            job_id = f"{name}_{attempt}"
            job, _ = self.request(what, table, partial(self._submit, job_id, self._nothing))
            self._wait(job, what, table)
            if job.job_type == "query":
                return None
            if job.error_result is None:
                found: bigquery.LoadJob = job
                return found
        raise AssertionError

    def _nothing(self, job_id: str) -> Job:
        return self._client.query("SELECT 1", job_id=job_id, retry=None, job_retry=None, timeout=_REQUEST_SECONDS)

    def _settle(self, base: str, begin: Callable[[str], Job], what: str, table: TableId) -> Any:
        tries = 0
        for attempt in itertools.count():
            job, ours = self.request(what, table, partial(self._submit, f"{base}_{attempt}", begin))
            self._wait(job, what, table)
            error = job.error_result
            if error is None:
                self._count(job, table)
                return job
            tries += ours
            if ours and (not is_passing(error) or tries >= _TRIES):
                raise failed_job(error, what, str(table))
            if ours:
                self.pause(random.uniform(0.5, 1.5) * min(20.0, 2.0**tries))  # noqa: S311 - spreads retries
        raise AssertionError

    def _submit(self, job_id: str, begin: Callable[[str], Job]) -> tuple[Job, bool]:
        """Start the job, or find it: repeated after a lost answer, it leads to the same job.

        Returns:
            The job, and whether it was started now; if not, it may have failed long ago.
        """
        from google.api_core.exceptions import Conflict, NotFound

        if job_id in self._uncertain:
            try:
                return self._find(job_id), True
            except NotFound:
                pass
        try:
            job = begin(job_id)
        except Conflict:
            return self._find(job_id), job_id in self._uncertain
        except Exception:
            self._uncertain.add(job_id)
            raise
        return job, True

    def _find(self, job_id: str) -> Job:
        found: Job = self._client.get_job(
            job_id, location=self._config.staging_bucket_location, retry=None, timeout=_REQUEST_SECONDS
        )
        return found

    def _wait(self, job: Job, what: str, table: TableId | None) -> None:
        """Until the job has ended, however it did."""
        wait = 0.03
        while job.state != "DONE":
            self.pause(wait)
            if self.is_stopped:
                raise RetryableError(
                    f"{what} was still running when the run stopped",
                    code="RPL-6535",
                    table=str(table or ""),
                    hint="nothing to do: the next run finds the job",
                )
            wait = min(wait * 1.5, 3.0)
            self.request(what, table, lambda: job.reload(retry=None, timeout=_REQUEST_SECONDS))

    def _labels(self) -> Mapping[str, str]:
        return self._config.labels

    def _count(self, job: Any, table: TableId | None) -> None:
        """Count what the job cost; missing statistics are ignored."""
        self._metrics.count("bigquery.jobs", table=table)
        self._metrics.count("bigquery.bytes_billed", int(getattr(job, "total_bytes_billed", None) or 0), table=table)
        self._metrics.count("bigquery.slot_ms", int(getattr(job, "slot_millis", None) or 0), table=table)


def now_microseconds() -> int:
    """Microseconds since 1970; used for expiration only, never to identify batches."""
    return time.time_ns() // 1000
