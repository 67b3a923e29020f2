"""OpenLineage's events of one run. Each has a bounded number of datasets and columns, however many tables there are."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.generated import (
    column_lineage_dataset,
    datasource_dataset,
    error_message_run,
    job_type_job,
    lifecycle_state_change_dataset,
    output_statistics_output_dataset,
    processing_engine_run,
    schema_dataset,
)

from replicator_runtime.lineage.changes import Change, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from replicator_runtime.lineage.datasets import TableLineage
    from replicator_sdk.discovery.dataset import Dataset

TABLES_AT_MOST: Final = 50
COLUMNS_AT_MOST: Final = 1000
"""Of one event, unless a single table has more: about 400 kB."""
PRODUCER: Final = "urn:replicator:runtime"
_LIFECYCLE: Final = lifecycle_state_change_dataset.LifecycleStateChange
_STATES: Final = {
    Kind.CREATED: _LIFECYCLE.CREATE,
    Kind.ALTERED: _LIFECYCLE.ALTER,
    Kind.RENAMED: _LIFECYCLE.RENAME,
    Kind.DROPPED: _LIFECYCLE.DROP,
}
_COPIED: Final = [column_lineage_dataset.Transformation(type="DIRECT", subtype="IDENTITY")]


class Events:
    """Makes the events of one run.

    Args:
        namespace: The pipeline's namespace, which is the job's.
        name: The pipeline's name, which is the job's.
        run_id: The run's id; OpenLineage's is a UUID made of the three.
    """

    def __init__(self, namespace: str, name: str, run_id: str) -> None:
        self.run_id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{PRODUCER}/{namespace}/{name}/{run_id}"))
        self._job = Job(
            namespace,
            name,
            {
                "jobType": job_type_job.JobTypeJobFacet(
                    processingType="STREAMING", integration="REPLICATOR", jobType="PIPELINE", producer=PRODUCER
                )
            },
        )

    def start(self) -> RunEvent:
        """The run begins."""
        engine = processing_engine_run.ProcessingEngineRunFacet(
            version=version("replicator"), name="replicator", producer=PRODUCER
        )
        return self._event(RunState.START, {"processing_engine": engine})

    def changed(self, changes: Iterable[Change]) -> Iterator[RunEvent]:
        """What is new of tables: as few events as the bounds allow."""
        for part in _parts(changes):
            inputs = [_input(one) for one in part]
            yield self._event(RunState.RUNNING, inputs=inputs, outputs=[_output(one) for one in part])

    def written(self, rows: Mapping[TableLineage, int]) -> Iterator[RunEvent]:
        """So many changes were applied to tables since the last such event; one event without datasets where none were."""
        found = list(rows.items())
        for at in range(0, max(1, len(found)), TABLES_AT_MOST):
            outputs = [
                OutputDataset(
                    one.target.namespace,
                    one.target.name,
                    outputFacets={
                        "outputStatistics": output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
                            rowCount=count, producer=PRODUCER
                        )
                    },
                )
                for one, count in found[at : at + TABLES_AT_MOST]
            ]
            yield self._event(RunState.RUNNING, outputs=outputs)

    def end(self, state: RunState, error: str = "") -> RunEvent:
        """The run ends.

        Args:
            state: COMPLETE, FAIL or ABORT.
            error: Its error, without secrets and values of rows.
        """
        facet = error_message_run.ErrorMessageRunFacet(message=error, programmingLanguage="Python", producer=PRODUCER)
        return self._event(state, {"errorMessage": facet} if error else {})

    def _event(
        self,
        state: RunState,
        run_facets: dict[str, Any] | None = None,
        *,
        inputs: list[InputDataset] | None = None,
        outputs: list[OutputDataset] | None = None,
    ) -> RunEvent:
        return RunEvent(
            eventType=state,
            eventTime=datetime.now(UTC).isoformat(timespec="milliseconds"),
            run=Run(self.run_id, run_facets or {}),
            job=self._job,
            inputs=inputs or [],
            outputs=outputs or [],
            producer=PRODUCER,
        )


def _parts(changes: Iterable[Change]) -> Iterator[list[Change]]:
    part: list[Change] = []
    columns = 0
    for one in changes:
        columns += len(one.lineage.fields)
        if part and (len(part) == TABLES_AT_MOST or columns > COLUMNS_AT_MOST):
            yield part
            part, columns = [], len(one.lineage.fields)
        part.append(one)
    if part:
        yield part


def _input(change: Change) -> InputDataset:
    lineage = change.lineage
    fields = [(one.source, one.source_type) for one in lineage.fields]
    return InputDataset(
        lineage.source.namespace, lineage.source.name, facets=_facets(change, lineage.source, fields, "source")
    )


def _output(change: Change) -> OutputDataset:
    lineage = change.lineage
    fields = [(one.target, one.type) for one in lineage.fields]
    facets = _facets(change, lineage.target, fields, "target")
    facets["columnLineage"] = column_lineage_dataset.ColumnLineageDatasetFacet(
        fields={
            one.target: column_lineage_dataset.Fields(
                inputFields=[
                    column_lineage_dataset.InputField(
                        lineage.source.namespace, lineage.source.name, one.source, _COPIED
                    )
                ]
            )
            for one in lineage.fields
        },
        producer=PRODUCER,
    )
    return OutputDataset(lineage.target.namespace, lineage.target.name, facets=facets)


def _facets(change: Change, place: Dataset, fields: list[tuple[str, str]], side: str) -> dict[str, Any]:
    facets: dict[str, Any] = {
        "schema": schema_dataset.SchemaDatasetFacet(
            fields=[schema_dataset.SchemaDatasetFacetFields(name, type=kind) for name, kind in fields],
            producer=PRODUCER,
        ),
        "dataSource": datasource_dataset.DatasourceDatasetFacet(
            name=place.namespace, uri=_uri(place.namespace), producer=PRODUCER
        ),
    }
    # The target may keep a table that the source has dropped.
    if change.kind in _STATES and (side == "source" or change.kind is not Kind.DROPPED):
        former = None if change.former is None else getattr(change.former, side)
        facets["lifecycleStateChange"] = lifecycle_state_change_dataset.LifecycleStateChangeDatasetFacet(
            lifecycleStateChange=_STATES[change.kind],
            previousIdentifier=None
            if former is None
            else lifecycle_state_change_dataset.PreviousIdentifier(name=former.name, namespace=former.namespace),
            producer=PRODUCER,
        )
    return facets


def _uri(namespace: str) -> str:
    return namespace if ":" in namespace else f"{namespace}:/"
