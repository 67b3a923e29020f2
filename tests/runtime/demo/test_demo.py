from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from replicator_runtime.demo import DemoResult, run_demo
from replicator_runtime.demo.comparison import TableComparison
from replicator_sdk.errors import DataError, NeedsUserError
from tests.services.spark.session import JAVA_OPTIONS


def test_the_demo_replicates_a_changing_shop_and_finds_every_table_equal(tmp_path: Path) -> None:
    """The command itself, with Spark, as a user runs it."""
    command = [str(Path(sys.executable).parent / "replicator"), "demo", "--directory", str(tmp_path / "demo"), "--json"]
    environment = {**os.environ, **JAVA_OPTIONS}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-4000:]
    shown = json.loads(done.stdout)["data"]
    assert {t["table"]: t["equal"] for t in shown["tables"]} == dict.fromkeys(
        ("customers", "order_items", "orders", "page views", "products"), True
    )
    assert shown["snapshotRows"] >= 20_000
    assert shown["changes"] > 100
    assert Path(shown["pipeline"]).is_file()


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "shop.db").write_text("mine", "utf-8")
    with pytest.raises(NeedsUserError) as error:
        run_demo(tmp_path)
    assert error.value.code == "RPL-1301"
    assert (tmp_path / "shop.db").read_text("utf-8") == "mine"


def test_tables_that_differ_are_an_error_with_exit_code_5() -> None:
    tables = (TableComparison("a", 1, 1, 0, 0), TableComparison("b", 2, 1, 1, 0))
    result = DemoResult(Path("p"), tables, 3, 1.0, 1, 1.0, 0.5, 0.5)
    with pytest.raises(DataError, match=r"differ in b\.") as error:
        result.raise_for_difference()
    assert (error.value.code, error.value.exit_code) == ("RPL-1304", 5)
    assert result.to_json()["equal"] is False
