"""A table that a later release wrote, in a form that this one does not know, is refused before anything is written."""

from __future__ import annotations

import pytest

from replicator_sdk import target
from replicator_sdk.errors import NeedsUserError
from replicator_target_bigquery.commit_log import statements
from tests.plugins.targets.bigquery.support.changes import KEYED, batch, insert, row
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.bigquery.emulators import Emulators


def test_a_table_of_a_later_release_is_refused_and_not_claimed(
    bigquery_emulators: Emulators, monkeypatch: pytest.MonkeyPatch
) -> None:
    bigquery_emulators.gate.clear()
    project = Project(bigquery_emulators)
    with monkeypatch.context() as later:
        later.setattr(target, "PROGRESS_FORM", 2)
        later.setattr(statements, "PROGRESS_FORM", 2)
        later.setattr(target, "release", lambda: "9.1.0")
        first = project.consumer()
        first.apply_batch(batch(1, [insert(row(1))]))
        first.stop()
    commits = project.count("_replicator_commits")
    consumer = project.consumer(epoch=2)
    with pytest.raises(NeedsUserError, match=r"RPL-7161.*form 2.*replicator==9\.1\.0"):
        consumer.progress(KEYED.table)
    with pytest.raises(NeedsUserError, match="RPL-7161"):
        consumer.apply_batch(batch(2, [insert(row(2))], epoch=2))
    assert project.count("_replicator_commits") == commits
    assert project.count("customers") == 1
    consumer.stop()
