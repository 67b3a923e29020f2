"""The assessment says whether rows can be streamed, and streams none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from google.api_core.exceptions import PermissionDenied

from replicator_sdk.discovery.assessment import Finding, Severity
from replicator_sdk.event import DDLOperation
from replicator_target_bigquery.assessment.assessor import BigQueryAssessor
from tests.plugins.targets.bigquery.merge_flush.support.projects import streaming
from tests.plugins.targets.bigquery.support.changes import KEYED, ddl
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.bigquery.emulators import Emulators
from tests.services.bigquery.write_gate import Loss
from tests.services.processes import LOOPBACK, free_port

MODES: dict[str, dict[str, Any]] = {
    "merge-flush": {},
    "appending": {"upsert_enabled": False, "delete_enabled": False},
    "cdc": {"mode": "cdc", "upsert_enabled": False, "delete_enabled": False, "kafka_key_field_name": ""}
    | {"merge_interval_ms": 60000},
}


@pytest.fixture(params=MODES)
def project(request: pytest.FixtureRequest, bigquery_emulators: Emulators) -> Project:
    bigquery_emulators.gate.clear()
    bigquery_emulators.write_gate.clear()
    return streaming(bigquery_emulators, **MODES[request.param])


@contextmanager
def assessor(project: Project) -> Iterator[BigQueryAssessor]:
    with project.target.create_table_assessor() as made:
        assert isinstance(made, BigQueryAssessor)
        yield made


def errors(findings: tuple[Finding, ...]) -> list[tuple[str, str]]:
    """The names and codes of errors; each says what it does and what helps."""
    found = [f for f in findings if f.severity is Severity.ERROR]
    assert all(f.impact and f.suggestion for f in found)
    return [(f.name, f.code) for f in found]


def test_there_is_no_finding_where_the_api_answers_and_nothing_is_written(project: Project) -> None:
    gate = project.emulators.write_gate
    with assessor(project) as asked:
        assert errors(asked.assess().findings) == []
        assert errors(asked.assess_table(KEYED).findings) == [], "the table is not there yet"
        consumer = project.consumer()
        consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
        consumer.stop()
        assert errors(asked.assess_table(KEYED).findings) == []
    assert gate.calls == ["GetWriteStream"] * 2, "the API, and the table"


def test_an_address_that_does_not_answer_is_reported_once(bigquery_emulators: Emulators) -> None:
    """The counterpart streams by insertAll, which needs no Storage Write API."""
    nowhere = {"storage_write_endpoint": f"http://{LOOPBACK}:{free_port()}"}
    project = streaming(bigquery_emulators, **nowhere)
    consumer = streaming(bigquery_emulators, dataset_name=project.dataset).consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    consumer.stop()
    with assessor(project) as asked:
        assert errors(asked.assess().findings) == [("streaming_unreachable", "RPL-6511")]
        assert errors(asked.assess_table(KEYED).findings) == []
    with assessor(streaming(bigquery_emulators, **nowhere, use_storage_write_api=False)) as asked:
        assert errors(asked.assess().findings) == []


def test_a_missing_right_is_reported_for_the_table(
    bigquery_emulators: Emulators, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, gate = streaming(bigquery_emulators), bigquery_emulators.write_gate
    gate.clear()
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    consumer.stop()
    denied = [("streaming_denied", "RPL-6513")]
    with assessor(project) as asked:
        gate.plan("GetWriteStream", Loss.DENIED, Loss.DENIED)
        assert errors(asked.assess().findings) == [], "BigQuery refuses to say whether a table is there"
        assert errors(asked.assess_table(KEYED).findings) == denied
        assert gate.pending == 0
        client = asked._connected().bigquery  # the emulator knows no permissions
        held: list[str] = []
        monkeypatch.setattr(client, "test_iam_permissions", lambda *_, **__: {"permissions": held})
        assert errors(asked.assess_table(KEYED).findings) == denied
        held.append("bigquery.tables.updateData")
        assert errors(asked.assess_table(KEYED).findings) == []


def test_an_api_that_is_not_enabled_is_reported(bigquery_emulators: Emulators, monkeypatch: pytest.MonkeyPatch) -> None:
    project = streaming(bigquery_emulators)
    off = PermissionDenied("off", error_info=_Reason("SERVICE_DISABLED"))  # type: ignore[no-untyped-call]

    def refuse(_: str) -> None:
        raise off

    with assessor(project) as asked:
        monkeypatch.setattr(asked._streaming, "_ask", refuse)
        (found,) = [finding for finding in asked.assess().findings if finding.name != "merge_cost"]
        assert (found.name, found.severity, found.code) == ("streaming_disabled", Severity.ERROR, "RPL-6513")
        assert "gcloud services enable" in found.fix


class _Reason:
    """google.rpc.ErrorInfo as Google's client keeps it."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
