"""A repair that is killed is done again by the next run, although the source has changed; the runs after it are equal.

The request is carried out at a position of the source that is later than the table's: what the log repeats does no harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from replicator_runtime.engine.repair.request_keys import request_of
from replicator_runtime.engine.verification.checksums import hashed
from replicator_runtime.engine.verification.verdict import KEY
from replicator_sdk import Column, TableId, TableSchema
from replicator_sdk.datatype import INT64
from replicator_state import OutcomeState, ReplicatorDirectory
from tests.crash import kill_points
from tests.crash.kill_points import Twin
from tests.crash.one_process import OneProcess
from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.pair import Pair
from tests.depth import some

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from replicator_state import Outcome, RequestFolder

CUSTOMER = TableId("main", "customer")
POINTS = sorted(kill_points.OF_REPAIR | {"engine.request.carried_out"})


def damage(pair: Pair, spark: SparkSession) -> None:
    """Another program deletes, changes and doubles customers, and adds one."""
    place = f"delta.`{pair.replicator.lake / 'main' / 'customer'}`"
    for statement in (
        "DELETE FROM {} WHERE id BETWEEN 10 AND 19",
        "UPDATE {} SET name = NULL WHERE id BETWEEN 20 AND 29",
        "INSERT INTO {0} SELECT * FROM {0} WHERE id BETWEEN 30 AND 39",
        "UPDATE {} SET id = id + 600 WHERE id BETWEEN 40 AND 49",
    ):
        spark.sql(statement.format(place))


def requests(pair: Pair) -> RequestFolder:
    return ReplicatorDirectory(str(pair.replicator.state), "default", "shop").requests()


def ask(pair: Pair, spark: SparkSession, ids: Sequence[int] = (*range(60), *range(600, 700), 5000)) -> str:
    """Ask for customers, by default those that `damage` changes and many others; the request."""
    schema = TableSchema(CUSTOMER, (Column("id", INT64, nullable=False),), ("id",))
    rows = hashed(spark.createDataFrame([(one,) for one in ids], "id long"), schema).toArrow()
    keys = np.zeros(len(ids), KEY)
    keys["k1"], keys["k2"] = rows.column("k1").to_numpy(), rows.column("k2").to_numpy()
    return requests(pair).submit("table.repair", request_of({CUSTOMER: keys})).request_id


def outcome(pair: Pair, request_id: str) -> Outcome:
    found = requests(pair).outcome(request_id)
    assert found is not None
    assert found.state is OutcomeState.DONE
    return found


@pytest.mark.timeout(900)
def test_runs_after_a_kill_at_any_step_of_a_repair_are_equal(
    make_pair: MakePair, spark: SparkSession, tmp_path: Path
) -> None:
    pair = make_pair(delta=True)
    document = pair.replicator.document()
    with OneProcess(tmp_path / "process") as process:
        assert process.run(document) == ""
        for point in some(POINTS, 1, name="repair"):
            damage(pair, spark)
            assert pair.differences()
            pair.change_rows(20)
            request_id = ask(pair, spark)
            process.kill_at(document, point)
            for _ in range(2):
                pair.change_rows(20)
                assert process.run(document) == ""
                assert pair.differences() == {}, point
                pair.change_structure()
            [done] = outcome(pair, request_id).data["tables"]
            assert "error" not in done, (point, done)
            assert done["written"] > 30
            assert process.run(document) == ""
        pair.assert_recovered(process)


def test_rows_that_the_log_repeats_are_doubled_without_the_overlap(
    make_pair: MakePair, spark: SparkSession, tmp_path: Path
) -> None:
    """The twin."""
    pair = make_pair(delta=True)
    document = pair.replicator.document()
    with OneProcess(tmp_path / "process") as process:
        assert process.run(document) == ""
        pair.database.run("INSERT INTO customer VALUES (5000, 'first', 1)")
        ask(pair, spark)
        code = process.run(document, without="overlap")
        pair.assert_harm(Twin("overlap", "doubled"), code)
