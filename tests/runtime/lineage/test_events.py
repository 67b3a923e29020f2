"""Events fit OpenLineage's specification, have bounded sizes, and say what was copied from where."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import ValidationError
from openlineage.client.event_v2 import RunState
from openlineage.client.serde import Serde

from replicator_runtime.lineage.changes import Change, Kind
from replicator_runtime.lineage.datasets import Field, TableLineage
from replicator_runtime.lineage.events import COLUMNS_AT_MOST, TABLES_AT_MOST, Events
from replicator_sdk.discovery.dataset import Dataset
from tests.runtime.lineage.receiver import validate

EVENTS = Events("default", "shop", "1a2b3c4d5e6f")


def lineage(name: str = "orders", columns: int = 2, copy_id: str = "") -> TableLineage:
    fields = tuple(Field(f"c{n}", "numeric(12,2)", f"C{n}", "decimal(12,2)") for n in range(columns))
    source = Dataset("postgres://db:5432", f"shop.public.{name}")
    return TableLineage(source, Dataset("s3://lake", f"tables/public/{name}"), fields, copy_id)


def sent(event: Any) -> dict[str, Any]:
    """The event as a transport sends it, valid."""
    found: dict[str, Any] = json.loads(Serde.to_json(event))
    validate(found)
    return found


def test_each_kind_of_event_fits_the_specification() -> None:
    start, ended = sent(EVENTS.start()), sent(EVENTS.end(RunState.COMPLETE))
    assert (start["eventType"], ended["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == ended["run"]["runId"]
    assert (start["job"]["namespace"], start["job"]["name"]) == ("default", "shop")
    assert start["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    failed = sent(EVENTS.end(RunState.FAIL, "RPL-3303: not published"))
    assert failed["run"]["facets"]["errorMessage"]["message"] == "RPL-3303: not published"
    for kind in Kind:
        [event] = EVENTS.changed([Change(kind, lineage(), lineage("former") if kind is Kind.RENAMED else None)])
        assert sent(event)["eventType"] == "RUNNING"
    [event] = EVENTS.written({lineage(): 12})
    assert sent(event)["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 12
    [event] = EVENTS.written({})
    assert sent(event)["outputs"] == []


def test_an_event_that_does_not_fit_is_found() -> None:
    """The twin: the validation sees what is wrong, in a facet as well."""
    event = sent(EVENTS.start())
    with pytest.raises(ValidationError):
        validate({**event, "eventType": "BEGUN"})
    with pytest.raises(ValidationError):
        validate({**event, "run": {"runId": "7"}})
    [changed] = EVENTS.changed([Change(Kind.ALTERED, lineage())])
    broken = sent(changed)
    broken["outputs"][0]["facets"]["schema"]["fields"][0].pop("name")
    with pytest.raises(ValidationError):
        validate(broken)


def test_each_column_names_the_one_that_it_is_copied_from() -> None:
    [event] = EVENTS.changed([Change(Kind.CREATED, lineage())])
    [output], [read] = sent(event)["outputs"], sent(event)["inputs"]
    assert (read["namespace"], read["name"]) == ("postgres://db:5432", "shop.public.orders")
    assert (output["namespace"], output["name"]) == ("s3://lake", "tables/public/orders")
    assert [f["type"] for f in read["facets"]["schema"]["fields"]] == ["numeric(12,2)"] * 2
    assert [f["name"] for f in output["facets"]["schema"]["fields"]] == ["C0", "C1"]
    assert output["facets"]["columnLineage"]["fields"]["C1"]["inputFields"] == [
        {
            "namespace": "postgres://db:5432",
            "name": "shop.public.orders",
            "field": "c1",
            "transformations": [{"type": "DIRECT", "subtype": "IDENTITY"}],
        }
    ]
    assert output["facets"]["dataSource"]["name"] == "s3://lake"


def test_a_table_that_the_source_dropped_may_still_be_at_the_target() -> None:
    [event] = EVENTS.changed([Change(Kind.DROPPED, lineage())])
    [output], [read] = sent(event)["outputs"], sent(event)["inputs"]
    assert read["facets"]["lifecycleStateChange"]["lifecycleStateChange"] == "DROP"
    assert "lifecycleStateChange" not in output["facets"]


def test_a_renamed_table_names_its_former_dataset() -> None:
    [event] = EVENTS.changed([Change(Kind.RENAMED, lineage("later"), lineage("before"))])
    facet = sent(event)["outputs"][0]["facets"]["lifecycleStateChange"]
    assert facet["lifecycleStateChange"] == "RENAME"
    assert facet["previousIdentifier"] == {"namespace": "s3://lake", "name": "tables/public/before"}


def test_a_thousand_tables_are_a_few_events_of_bounded_size() -> None:
    tables = [lineage(f"t{n}", columns=20) for n in range(1000)]
    events = list(EVENTS.changed([Change(Kind.KNOWN, one) for one in tables]))
    assert len(events) == 20
    names = [output.name for event in events for output in event.outputs or ()]
    assert names == [one.target.name for one in tables]
    assert max(len(Serde.to_json(event)) for event in events) < 600_000
    wide = list(EVENTS.changed([Change(Kind.KNOWN, lineage(f"w{n}", columns=900)) for n in range(3)]))
    assert [len(event.outputs or ()) for event in wide] == [1, 1, 1]
    assert len(list(EVENTS.written(dict.fromkeys(tables, 1)))) == 1000 // TABLES_AT_MOST
    assert COLUMNS_AT_MOST == 1000
