"""Compares one table with its copy: checksums of all rows, then the keys that differ, again and again until they are decided."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final, TypeVar

from replicator_runtime.engine.tables.table_scope import TableScope
from replicator_runtime.engine.verification import checksums
from replicator_runtime.engine.verification.common_position import check_stop, pin
from replicator_runtime.engine.verification.comparable import check_comparable, check_same
from replicator_runtime.engine.verification.key_values import key_values
from replicator_runtime.engine.verification.pace import read_in_parts
from replicator_runtime.engine.verification.reading_beside import read_beside
from replicator_runtime.engine.verification.verdict import Verdict, of_each_kind
from replicator_sdk import chunk_dataframe
from replicator_sdk.errors import NeedsUserError, RetryableError, SchemaDriftError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_runtime.engine.verification.common_position import Pinned
    from replicator_runtime.engine.verification.pace import Pace
    from replicator_runtime.engine.verification.reading import Reading
    from replicator_runtime.engine.verification.verdict import Observed
    from replicator_sdk import SnapshotChunk, TableId, TableReader, TableSchema, TableSnapshot

    ReadT = TypeVar("ReadT")

ROUNDS: Final = 6
KEYS_AT_MOST: Final = 4_000_000
_OWN: Final = "RPL-136"
_AGAIN_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Settings:
    """How tables are compared.

    Attributes:
        timeout: For how many seconds to wait each time until the target has what the source had.
        keys_shown: Of how many keys that differ the values are returned.
        say: Reports what is done, for people.
        pace: Where the source is to be read part by part: it says how long to wait before each, and takes the number of its rows.
        keys_at_most: So many keys that differ are held in memory; with more the table is refused.
        rows_at_most: So many rows, in parts of the table that differ, are looked at one by one; with more the table is refused.
    """

    timeout: float
    keys_shown: int
    say: Callable[[str], None]
    pace: Pace | None = None
    keys_at_most: int = KEYS_AT_MOST
    rows_at_most: int | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was found.

    Attributes:
        position: The source's position at which its rows were counted.
        rows_source: How many rows the source had there.
        rows_target: How many rows the target's version had.
        missing: Rows that the target lacks.
        surplus: Rows that it has too many.
        different: Rows that it has with other values.
        changing: Keys that changed whenever they were looked at, so that nothing is known of them.
        left_out: The operations that the pipeline leaves out of the table.
        comparisons: How often rows were compared.
        keys: The key of some rows that differ.
        differing: The hashes of all keys that differ, an array of `KEY`; None for a table without a key.
    """

    position: str
    rows_source: int
    rows_target: int
    missing: int = 0
    surplus: int = 0
    different: int = 0
    changing: int = 0
    left_out: tuple[str, ...] = ()
    comparisons: int = 1
    keys: tuple[dict[str, Any], ...] = ()
    differing: Any = field(default=None, compare=False)

    @property
    def is_equal(self) -> bool:
        """Whether no difference was found."""
        return not (self.missing or self.surplus or self.different)


class TableComparison:
    """Of one table; used once, by one thread.

    Args:
        reading: The replicator.
        record: The table as it was stored last.
        target: Reads the target.
        settings: How.
    """

    def __init__(self, reading: Reading, record: TableRecord, target: TableReader, settings: Settings) -> None:
        self._reading = reading
        self._record = record
        self._target = target
        self._settings = settings
        selected = reading.pipeline.selection.matches(record.table)
        self._left_out = frozenset[str]() if selected is None else TableScope.of(selected).left_out
        self._form: pa.Schema | None = None
        self._rows_of_source = 0
        self._ignored = checksums.ignored_for(self._left_out)

    def run(self) -> Comparison:
        """Compare; what the source or the target cannot answer for the moment is tried some times.

        Raises:
            ReplicatorError: Why the table cannot be compared.
        """
        check_comparable(self._record, self._left_out)
        tries = 0
        while True:
            try:
                found = self._compare()
            except (RetryableError, SchemaDriftError) as error:
                tries += 1
                if error.code.startswith(_OWN) or tries >= ROUNDS:
                    raise
                self._reading.pause(_AGAIN_SECONDS)
                check_stop(self._reading)
            else:
                self._check_still_same()
                return found

    def _compare(self) -> Comparison:
        verdict = Verdict()
        with self._opened() as snapshot:
            self._say("reads all rows")
            schema = snapshot.schema
            parts, pinned = self._pinned(snapshot, checksums.bucket_sums)
            source = checksums.Sums.of_parts(parts)
            self._rows_of_source = source.rows
            target = checksums.bucket_sums(checksums.hashed(pinned.version.rows, schema))
            buckets = source.differing(target)
            counted = Comparison(
                str(snapshot.position), source.rows, target.rows, left_out=tuple(sorted(self._left_out))
            )
            if not buckets:
                return counted
            if not pinned.reached:
                raise _late(self._record.table, str(snapshot.position), str(self._reading.saved_offset()))
            most = self._settings.rows_at_most
            if most is not None and sum(source.rows_in(bucket) for bucket in buckets) > most:
                raise _too_large(self._record.table, len(buckets))
            self._say(f"compares the rows of {len(buckets)} of {checksums.BUCKETS} parts")
            self._take(verdict, snapshot, lambda rows: checksums.within(rows, buckets), pinned)
        comparisons = 2
        while len(verdict.pending) and comparisons <= ROUNDS:
            check_stop(self._reading)
            self._say(f"compares {len(verdict.pending):,} rows again that may only have changed meanwhile")
            with self._opened() as snapshot:
                if snapshot.schema != schema:
                    raise _altered(schema)
                keys = verdict.pending
                self._take(verdict, snapshot, lambda rows, keys=keys: self._among(rows, keys))  # type: ignore[misc]
            comparisons += 1
        return self._judged(counted, verdict, schema, comparisons)

    def _judged(self, counted: Comparison, verdict: Verdict, schema: TableSchema, comparisons: int) -> Comparison:
        found = verdict.confirmed
        shown = of_each_kind(found, self._settings.keys_shown)
        return replace(
            counted,
            missing=int(found["missing"].sum()),
            surplus=int(found["surplus"].sum()),
            different=int(found["different"].sum()),
            changing=len(verdict.pending),
            comparisons=comparisons,
            keys=self._keys(shown, schema) if len(shown) else (),
            differing=verdict.confirmed_keys if schema.primary_key else None,
        )

    def _keys(self, shown: Observed, schema: TableSchema) -> tuple[dict[str, Any], ...]:
        with self._opened() as snapshot:
            frames = (self._source_rows(snapshot, snapshot.chunks), self._target.open(schema).rows)
            return tuple(key_values(frames, schema, shown, self._reading.spark.session()))

    def _among(self, rows: DataFrame, keys: Any) -> DataFrame:
        return checksums.among(rows, keys, self._reading.spark.session())

    def _take(
        self,
        verdict: Verdict,
        snapshot: TableSnapshot,
        part: Callable[[DataFrame], DataFrame],
        pinned: Pinned | None = None,
    ) -> None:
        """Compare a part of the rows, and have the verdict take what differs.

        Args:
            verdict: Takes it.
            snapshot: The source's rows.
            part: Chooses among hashed rows.
            pinned: A version that has what the snapshot has; of use only where all its rows are of one position.
        """

        def held(rows: DataFrame) -> DataFrame:
            from pyspark import StorageLevel

            chosen = part(rows).persist(StorageLevel.DISK_ONLY)
            chosen.count()
            return chosen

        parts, now = self._pinned(snapshot, held, pinned)
        try:
            if not now.reached:
                raise _late(self._record.table, str(snapshot.position), str(self._reading.saved_offset()))
            schema = snapshot.schema
            observed = checksums.differing_keys(
                reduce(lambda rows, more: rows.union(more), parts),
                part(checksums.hashed(now.version.rows, schema)),
                keyed=bool(schema.primary_key),
                ignored=self._ignored,
                at_most=self._settings.keys_at_most,
            )
        finally:
            for rows in parts:
                rows.unpersist()
        if len(observed) > self._settings.keys_at_most:
            raise _too_many(self._record.table, self._settings.keys_at_most)
        verdict.take(observed, exact=now.holds_no_more and snapshot.end() is None)

    def _pinned(
        self, snapshot: TableSnapshot, read: Callable[[DataFrame], ReadT], known: Pinned | None = None
    ) -> tuple[list[ReadT], Pinned]:
        """What `read` makes of the source's hashed rows, and a version of the target that has all that these have.

        Where the rows are of one position, the version is taken while they are read, so that few later changes are in it.
        """
        exact = snapshot.end() is None
        if exact and known is None:
            pinning = partial(self._pin, snapshot, snapshot.position)
            return read_beside(partial(self._parts, snapshot, read), pinning, self._reading.spark.session())
        result = self._parts(snapshot, read)
        if exact and known is not None:
            return result, known
        return result, self._pin(snapshot, snapshot.end() or snapshot.position)

    def _parts(self, snapshot: TableSnapshot, read: Callable[[DataFrame], ReadT]) -> list[ReadT]:
        """What `read` makes of all rows at once, or of part after part where they are read at a pace."""

        def read_part(chunks: Sequence[SnapshotChunk]) -> ReadT:
            return read(checksums.hashed(self._source_rows(snapshot, chunks), snapshot.schema))

        return read_in_parts(
            snapshot.chunks, read_part, checksums.rows_of, self._rows_of_source, self._settings.pace, self._wait
        )

    def _wait(self, seconds: float) -> None:
        self._reading.pause(seconds)
        check_stop(self._reading)

    def _pin(self, snapshot: TableSnapshot, until: Any) -> Pinned:
        return pin(self._reading, self._target, snapshot.schema, until, self._settings.timeout, self._check_still_same)

    def _source_rows(self, snapshot: TableSnapshot, chunks: Sequence[SnapshotChunk]) -> DataFrame:
        spark, schema = self._reading.spark.session(), snapshot.schema
        if self._form is None or self._form.names != list(schema.names):
            self._form = self._target.open(schema).form
        return chunk_dataframe(spark, schema, chunks, snapshot.read, self._form)

    @contextmanager
    def _opened(self) -> Iterator[TableSnapshot]:
        with ExitStack() as opened:
            reader = self._reading.snapshot_reader()
            opened.callback(reader.close)
            yield opened.enter_context(reader.open(self._record.schema))

    def _check_still_same(self) -> None:
        """Check that nothing happened to the table since the comparison began that it does not know of.

        Raises:
            ReplicatorError: As `check_same`.
        """
        check_same(self._reading, self._record, self._left_out)

    def _say(self, text: str) -> None:
        self._settings.say(f"{self._record.table}: {text}")


def _late(table: TableId, position: str, saved: str) -> RetryableError:
    return RetryableError(
        f"the copy differs, but may only be late: no run goes on, and the saved offset is {saved}",
        code="RPL-1367",
        hint="give the command beside `replicator run`; without a run only after `replicator run --until-current`, and only where the"
        " source's position does not move by itself, as PostgreSQL's does",
        table=str(table),
        position=position,
    )


def _too_many(table: TableId, keys: int) -> NeedsUserError:
    return NeedsUserError(
        f"more than {keys:,} rows differ, which is too many to be distinguished from rows that change",
        code="RPL-1368",
        hint="copy the table again: `replicator table resync NAME TABLE`",
        table=str(table),
    )


def _too_large(table: TableId, parts: int) -> NeedsUserError:
    return NeedsUserError(
        f"{parts} of {checksums.BUCKETS} parts of the table differ: too many rows to be looked at one by one beside a stream",
        code="RPL-1381",
        hint="`replicator verify PIPELINE TABLE` looks at them, in a process of its own",
        table=str(table),
    )


def _altered(schema: TableSchema) -> SchemaDriftError:
    return SchemaDriftError(
        "the table was altered while it was compared",
        code="RPL-6020",
        hint="give the command again",
        table=str(schema.table),
    )
