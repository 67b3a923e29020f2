"""A run that begins reads what the commit log says of all its tables by one query, and claims them by the same."""

from __future__ import annotations

import pytest

from replicator_sdk.errors import FencedError, NeedsUserError
from replicator_sdk.event import DDLOperation
from replicator_sdk.schema import TableId, rename_table
from tests.plugins.targets.bigquery.support.changes import KEYED, at, batch, ddl, insert, row
from tests.plugins.targets.bigquery.support.project import Project

SCHEMAS = [rename_table(KEYED, TableId("shop", f"t{number}")) for number in range(8)]


def written(project: Project, name: str = "conformance") -> None:
    """Each table by the run of epoch 1, at a position of its own."""
    consumer = project.consumer(name=name)
    for position, schema in enumerate(SCHEMAS, 1):
        consumer.apply_ddl(ddl(position, DDLOperation.CREATE_TABLE, schema))
    consumer.stop()


def test_many_tables_cost_two_queries(project: Project) -> None:
    written(project)
    project.emulators.gate.clear()
    consumer = project.consumer(epoch=2)
    found = [consumer.progress(schema.table) for schema in SCHEMAS]
    assert [p.position if p else None for p in found] == [at(position) for position in range(1, 9)]
    assert sum(job.kind == "query" for job in project.emulators.gate.jobs) == 2
    claims = project.select("SELECT COUNT(*) FROM {d}._replicator_commits WHERE kind = 'claimed' AND epoch = 2")
    assert claims == [["8"]]
    consumer.stop()


def test_tables_that_were_read_together_are_closed_to_older_runs(project: Project) -> None:
    written(project)
    zombie = project.consumer()
    assert zombie.progress(SCHEMAS[7].table) is not None
    newer = project.consumer(epoch=2)
    for schema in SCHEMAS[:2]:
        newer.progress(schema.table)
    with pytest.raises(FencedError):
        zombie.apply_batch(batch(20, [insert(row(1), SCHEMAS[7])]))
    assert project.count("t7") == 0
    newer.stop()
    zombie.stop()


def test_tables_of_other_replicators_in_the_dataset_are_neither_claimed_nor_taken(project: Project) -> None:
    written(project, name="other")
    own = project.consumer(epoch=5)
    mine = [rename_table(KEYED, TableId("shop", f"mine{number}")) for number in range(2)]
    for schema in mine:
        assert own.progress(schema.table) is None
        own.apply_ddl(ddl(1, DDLOperation.CREATE_TABLE, schema))
    with pytest.raises(NeedsUserError, match=r"RPL-6524.*default/other"):
        own.progress(SCHEMAS[0].table)
    assert project.select("SELECT MAX(epoch) FROM {d}._replicator_commits WHERE table_name = 't0'") == [["1"]]
    own.stop()


def test_who_asks_again_gets_what_is_there_now(project: Project) -> None:
    written(project)
    consumer, other = project.consumer(epoch=2), project.consumer(epoch=2)
    for schema in SCHEMAS:
        consumer.progress(schema.table)
    assert other.progress(SCHEMAS[3].table) is not None
    other.apply_batch(batch(20, [insert(row(1), SCHEMAS[3])], epoch=2))
    again = consumer.progress(SCHEMAS[3].table)
    assert again is not None
    assert again.position == at(20)
    other.stop()
    consumer.stop()


def test_a_name_at_the_target_that_another_source_table_has_is_refused(project: Project) -> None:
    """The claim keeps the table at the source that the commit log names."""
    written(project)
    consumer = project.consumer(epoch=2)
    consumer.progress(SCHEMAS[0].table)
    with pytest.raises(NeedsUserError, match="RPL-6523"):
        consumer.progress(TableId("elsewhere", "t1"))
    consumer.stop()
