"""What Google refuses: the error names table, code and next step, nothing is lost or doubled, other tables go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from replicator_sdk.errors import DataError, NeedsUserError, ReplicatorError, RetryableError, SchemaDriftError
from replicator_sdk.event import DDLOperation
from tests.plugins.targets.bigquery.support.changes import KEYED, KEYLESS, batch, ddl, insert, row
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.bigquery.emulators import Emulators
from tests.services.bigquery.gate import Fault, Gate, Request

_SECRET = "top secret"  # a value, which Google's own messages may quote


@dataclass(frozen=True)
class Refusal:
    """Something Google says no to.

    Attributes:
        fault: How.
        on: Where: `load`, `merge`, `read`.
        error: The class of the error that is raised.
        code: Its code.
        hint: A word of the next step.
    """

    fault: Fault
    on: str
    error: type[ReplicatorError]
    code: str
    hint: str


_WHERE: dict[str, Callable[[Request], bool]] = {
    "load": lambda r: r.kind == "load",
    "merge": lambda r: "MERGE" in r.sql,
    "look": lambda r: r.method == "GET" and r.path.split("?")[0].endswith("/tables/customers"),
}
_DENIED = f"Access Denied: Table test:d.customers: Permission denied, see {_SECRET}"
_BUFFER = "UPDATE or DELETE statement over table d.customers would affect rows in the streaming buffer"
_ELSEWHERE = "Cannot read and write in different locations: source: EU, destination: US"
REFUSALS = {
    "no right to look": Refusal(
        Fault(status=403, reason="accessDenied", message=_DENIED), "look", NeedsUserError, "RPL-6513", "roles"
    ),
    "no right to begin a load": Refusal(
        Fault(status=403, reason="accessDenied", message=_DENIED), "load", NeedsUserError, "RPL-6513", "roles"
    ),
    "no right to read the bucket": Refusal(
        Fault(fails=True, reason="accessDenied", message=_DENIED), "load", NeedsUserError, "RPL-6513", "roles"
    ),
    "no right to merge": Refusal(
        Fault(fails=True, reason="accessDenied", message=_DENIED), "merge", NeedsUserError, "RPL-6513", "roles"
    ),
    "files gone": Refusal(Fault(fails=True, reason="notFound"), "load", NeedsUserError, "RPL-6514", "stagingBucket"),
    "bucket elsewhere": Refusal(
        Fault(fails=True, reason="invalid", message=_ELSEWHERE), "load", NeedsUserError, "RPL-6521", "location"
    ),
    "dataset elsewhere": Refusal(
        Fault(status=404, reason="notFound", message="Not found: Dataset test:d was not found in location EU"),
        *("merge", NeedsUserError, "RPL-6521", "location"),
    ),
    "row too large": Refusal(
        Fault(fails=True, reason="invalid", message=f"Row size is larger than 100 MB: {_SECRET}"),
        *("load", DataError, "RPL-6518", "100 MB"),
    ),
    "rows are being streamed": Refusal(
        Fault(fails=True, reason="invalidQuery", message=_BUFFER), "merge", RetryableError, "RPL-6516", "stop what else"
    ),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_is_reported_and_the_batch_is_applied_once_it_is_fixed(project: Project, refusal: Refusal) -> None:
    gate = project.emulators.gate
    changes = batch(1, [insert(row(1, "b")), insert(row(2, _SECRET))])
    gate.plan(refusal.fault, on=_WHERE[refusal.on])
    consumer = project.consumer()
    with pytest.raises(refusal.error) as err:
        consumer.apply_batch(changes)
    assert type(err.value) is refusal.error
    assert err.value.code == refusal.code
    assert err.value.table == "shop.customers"
    assert refusal.hint in err.value.hint
    assert _SECRET not in str(err.value)
    assert gate.pending == 0
    consumer.apply_batch(changes)
    assert project.select("SELECT id, name FROM {d}.customers ORDER BY id") == [["1", "b"], ["2", _SECRET]]
    consumer.stop()


@pytest.mark.parametrize(
    ("on", "reason", "fails"), [("load", "quotaExceeded", True), ("merge", "rateLimitExceeded", False)]
)
def test_limits_are_retried(project: Project, on: str, reason: str, fails: bool) -> None:
    """A refused request is repeated under its identifier; a job that failed is begun under the next one."""
    gate = project.emulators.gate
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE, KEYLESS))
    gate.plan(Fault(fails=True, reason=reason) if fails else Fault(status=403, reason=reason), on=_WHERE[on])
    consumer.apply_batch(batch(1, [insert({"name": "a", "number": 1}, KEYLESS)] * 2))
    assert gate.pending == 0
    assert project.count("log") == 2
    tried = [job.body["jobReference"]["jobId"].rsplit("_", 1)[1] for job in gate.jobs if _WHERE[on](job)]
    assert tried == (["0", "1"] if fails else ["0"])
    consumer.stop()


@pytest.fixture
def storage_gate(bigquery_emulators: Emulators) -> Iterator[Gate]:
    """A gate before Cloud Storage."""
    gate = Gate(bigquery_emulators.storage_port)
    yield gate
    gate.close()


def test_a_missing_right_on_the_bucket_is_reported_and_nothing_is_lost(
    bigquery_emulators: Emulators, storage_gate: Gate
) -> None:
    project = Project(bigquery_emulators, storage_endpoint=f"http://127.0.0.1:{storage_gate.port}")
    storage_gate.plan(Fault(status=403, reason="forbidden"), on=lambda r: r.method == "POST")
    consumer = project.consumer()
    with pytest.raises(NeedsUserError) as err:
        consumer.apply_batch(batch(1, [insert(row(1))]))
    assert (err.value.code, err.value.table) == ("RPL-6513", "shop.customers")
    assert "gs://staging" in err.value.message
    consumer.apply_batch(batch(1, [insert(row(1))]))
    assert project.count("customers") == 1
    consumer.stop()


@pytest.mark.parametrize("reason", ["quotaExceeded", "rateLimitExceeded"])
def test_a_limit_of_the_bucket_is_retried(bigquery_emulators: Emulators, storage_gate: Gate, reason: str) -> None:
    project = Project(bigquery_emulators, storage_endpoint=f"http://127.0.0.1:{storage_gate.port}")
    storage_gate.plan(Fault(status=403, reason=reason), on=lambda r: r.method == "POST")
    consumer = project.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    assert storage_gate.pending == 0
    assert project.count("customers") == 1
    consumer.stop()


def test_a_manually_altered_table_is_reported_before_anything_is_loaded(project: Project) -> None:
    first = project.consumer()
    first.apply_batch(batch(1, [insert(row(1, "a"))]))
    first.stop()
    project.select("ALTER TABLE {d}.customers RENAME COLUMN name TO other")
    project.emulators.gate.clear()
    # The emulator still reports the old columns, where BigQuery reports the new ones.
    consumer = project.consumer()
    table = consumer._table(KEYED.table)
    found = table.found()
    assert found is not None
    object.__setattr__(found, "fields", tuple(f for f in found.fields if f.name != "name"))
    with pytest.raises(SchemaDriftError) as err:
        consumer.apply_batch(batch(2, [insert(row(2))]))
    assert (err.value.code, err.value.table) == ("RPL-6531", "shop.customers")
    assert "no column name" in err.value.message
    assert [job for job in project.emulators.gate.jobs if job.kind == "load"] == []
    assert project.count("customers") == 1
    consumer.stop()
