"""Intermediate tables that earlier runs leave are removed by the next run of that replicator, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from replicator_sdk.errors import FencedError, RetryableError
from replicator_sdk.event import DDLOperation
from replicator_target_bigquery.merge_flush.consumer import MergeFlushConsumer
from replicator_target_bigquery.merge_flush.intermediate.tables import EPOCH, OF_TABLE
from replicator_target_bigquery.tables.owner_label import OWNER
from tests.plugins.targets.bigquery.merge_flush.support.projects import intermediates, merging, streaming
from tests.plugins.targets.bigquery.support.changes import KEYED, at, batch, ddl, insert, row
from tests.plugins.targets.bigquery.support.project import Project


def run(project: Project, epoch: int, position: int) -> tuple[MergeFlushConsumer, str]:
    """A run that has streamed and not merged, and its intermediate table."""
    there = set(intermediates(project))
    consumer = merging(project, epoch=epoch)
    if epoch == 1:
        consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    consumer.apply_batch(batch(position, [insert(row(position))], epoch=epoch))
    (made,) = set(intermediates(project)) - there
    return consumer, made


def tables(project: Project, prefix: str) -> list[str]:
    """The tables whose names begin so."""
    found = project.select("SELECT table_name FROM {d}.INFORMATION_SCHEMA.TABLES ORDER BY table_name")
    return [name for (name,) in found if name.startswith(prefix)]


def test_the_next_run_drops_what_an_earlier_run_left(project: Project) -> None:
    _dead, left = run(project, 1, 1)
    project.select(f"CREATE TABLE {{d}}.`{left[:-1]}0` AS SELECT 1 AS unlabelled")
    alive, made = run(project, 2, 1)
    assert intermediates(project) == sorted([f"{left[:-1]}0", made])
    alive.settle([KEYED.table])
    assert project.count("customers") == 1
    alive.stop()
    assert intermediates(project) == [f"{left[:-1]}0"]


def test_what_was_left_under_another_suffix_is_dropped_too(project: Project) -> None:
    """Only by its labels: the tables of another replicator, or for another table, stay, whatever their names."""
    before = streaming(project.emulators, dataset_name=project.dataset, intermediate_table_suffix="before")
    dead = merging(before)
    dead.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    dead.apply_batch(batch(1, [insert(row(1))]))
    (left,) = tables(project, "_customers_before_")
    client: Any = dead._clients.bigquery
    there = client.get_table(f"{project.config.project}.{project.dataset}.{left}")
    kept = []
    for digit, labels in (("a", {OWNER: "another-owner"}), ("b", {OF_TABLE: "another-table"}), ("c", {EPOCH: "2"})):
        kept.append(left.replace(left.rsplit("_", 2)[1], digit * 32))
        other = type(there)(f"{project.config.project}.{project.dataset}.{kept[-1]}", schema=there.schema)
        other.labels = {**there.labels, **labels}
        client.create_table(other)
    alive, made = run(project, 2, 1)
    assert tables(project, "_customers_") == sorted([*kept, made])
    alive.stop()


def test_a_superseded_run_cannot_merge_what_it_streamed(project: Project) -> None:
    zombie, left = run(project, 1, 1)
    alive, made = run(project, 2, 1)
    assert left not in intermediates(project)
    alive.apply_batch(batch(2, [insert(row(2))], epoch=2))
    alive.settle([KEYED.table])
    zombie.settle([KEYED.table])
    with pytest.raises(FencedError):
        zombie.settled(KEYED.table)
    assert project.count("customers") == 2
    zombie.stop()
    assert intermediates(project) == [made]
    progress = alive.progress(KEYED.table)
    assert progress is not None
    assert progress.position == at(2)
    alive.stop()


def test_a_superseded_run_cannot_stream_and_is_fenced(project: Project) -> None:
    zombie, _ = run(project, 1, 1)
    alive, _ = run(project, 2, 1)
    with pytest.raises(FencedError):
        zombie.apply_batch(batch(2, [insert(row(2))]))
    zombie.stop()
    alive.stop()


def test_only_what_is_this_replicators_and_older_is_removed(project: Project) -> None:
    dead, left = run(project, 1, 1)
    client: Any = dead._clients.bigquery
    there = client.get_table(f"{project.config.project}.{project.dataset}.{left}")
    kept = []
    for digit, labels in (
        ("a", {OWNER: "another-owner"}),
        ("b", {OF_TABLE: "another-table"}),
        ("c", {EPOCH: "2"}),
        ("d", {EPOCH: "3"}),
        ("e", {EPOCH: "soon"}),
    ):
        kept.append(f"{left.rsplit('_', 2)[0]}_{digit * 32}_{left.rsplit('_', 1)[1]}")
        other = type(there)(f"{project.config.project}.{project.dataset}.{kept[-1]}", schema=there.schema)
        other.labels = {**there.labels, **labels}
        client.create_table(other)
    alive, made = run(project, 2, 1)
    assert intermediates(project) == sorted([*kept, made])
    alive.stop()


def test_a_removed_intermediate_table_is_streamed_again(project: Project) -> None:
    first, made = run(project, 1, 1)
    project.select(f"DROP TABLE {{d}}.`{made}`")
    first.settle([KEYED.table])
    with pytest.raises(RetryableError, match="RPL-6611"):
        first.settled(KEYED.table)
    first.stop()
    assert project.count("customers") == 0
