"""Settings that cannot work are refused before anything starts, and the assessment says what no test shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from replicator_sdk.discovery.assessment import Severity
from replicator_sdk.schema import TableId
from replicator_target_iceberg import IcebergTarget
from replicator_target_iceberg.arrangement.terms import PartitionTerm
from replicator_target_iceberg.config import IcebergConfig
from replicator_target_iceberg.naming import identifier
from tests.plugins.targets.changes import KEYED


def config(**settings: Any) -> IcebergConfig:
    base = {"catalog": "lake", "catalogType": "hadoop", "warehouse": "/data/lake"}
    return IcebergConfig.model_validate(base | settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"warehouse": ""}, "hadoop needs `warehouse`"),
        ({"catalogType": "jdbc"}, "jdbc needs `uri`"),
        ({"catalogType": "rest", "warehouse": ""}, "rest needs `uri`"),
        ({"catalogType": "custom"}, "needs `catalog-impl`"),
        ({"tableProperties": {"*": {"format-version": "3"}}}, "follows from `formatVersion`"),
        ({"tableProperties": {"*": {"write.format.default": "orc"}}}, "data files are Parquet"),
        ({"tableProperties": {"*": {"write.delete.format.default": "avro"}}}, "data files are Parquet"),
        ({"tableProperties": {"*": {"write.parquet.compression-codec": "lzo"}}}, "must be one of zstd, snappy"),
        ({"tableProperties": {"*": {"write.parquet.compression-level": "high"}}}, "whole number"),
        ({"tableProperties": {"*": {"write.parquet.page-size-bytes": "1000"}}}, "do not follow"),
        ({"tableProperties": {"*": {"write.object-storage.enabled": "true"}}}, "do not follow"),
        ({"tableProperties": {"*": {"write.target-file-size-bytes": "1"}}}, "follows from `targetFileBytes`"),
        ({"partitioning": {"*": ["zorder(a, b)"]}}, "no partition transform"),
        ({"sortOrder": {"*": ["a", "a desc"]}}, "twice"),
        ({"branch": "replicator-x"}, "like the replicator's own tags"),
        ({"branch": "a b"}, "pattern"),
        ({"branch": "audit", "dropTables": "drop"}, "would delete `main`"),
        ({"coordinator": "kafka"}, "a coordinator over a Kafka topic, for several processes, does not exist yet"),
        ({"coordinator": "zookeeper"}, "Input should be 'state'"),
        ({"commitIntervalMs": 3_600_001}, "less than or equal to 3600000"),
        ({"commitTimeoutMs": -1}, "greater than or equal to 0"),
        ({"formatVersion": 1}, "Input should be 2 or 3"),
        ({"catalog": "a.b"}, "pattern"),
    ],
)
def test_settings_that_do_nothing_or_cannot_work_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        config(**settings)


def test_properties_of_the_catalog_are_not_shown_and_are_passed_on() -> None:
    made = config(catalogType="jdbc", uri="jdbc:x", catalogProperties={"jdbc.password": "secret-word"})
    assert "secret-word" not in repr(made)
    assert made.properties()["jdbc.password"] == "secret-word"
    assert made.properties()["type"] == "jdbc"
    assert "type" not in config(catalogType="custom", catalogProperties={"catalog-impl": "x.Y"}).properties()


def findings(made: IcebergConfig) -> dict[str, Severity]:
    with IcebergTarget(made).create_table_assessor() as assessor:
        return {finding.code or finding.name: finding.severity for finding in assessor.assess().findings}


def test_the_assessment_says_what_is_not_there_and_what_no_test_shows(tmp_path: Path) -> None:
    assert findings(config(warehouse=str(tmp_path))) == {"not_there_yet": Severity.INFO}
    assert findings(config(warehouse=str(tmp_path), branch="audit"))["columns_of_all_branches"] is Severity.INFO
    assert "catalog_not_tried" not in findings(config(catalogType="rest", uri="http://127.0.0.1:1"))
    assert findings(config(catalogType="hive"))["catalog_not_tried"] is Severity.WARNING
    jdbc = findings(config(catalogType="jdbc", uri="jdbc:x", warehouse="s3://bucket/lake"))
    assert jdbc["warehouse_not_tried"] is Severity.WARNING


def test_a_catalog_of_folders_on_an_object_store_is_an_error() -> None:
    """Two runs could overwrite each other's commits there."""
    assert findings(config(warehouse="s3://bucket/lake"))["RPL-3429"] is Severity.ERROR
    assert findings(config(catalogType="jdbc", uri="jdbc:x", warehouse="ftp://host/lake"))["RPL-3424"] is Severity.ERROR


def test_a_folder_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert findings(config(warehouse=f"{tmp_path}/file/lake"))["RPL-3423"] is Severity.ERROR


def test_every_column_of_a_table_is_said_to_arrive_as_it_does() -> None:
    with IcebergTarget(config()).create_table_assessor() as assessor:
        assessed = assessor.assess_table(KEYED)
    assert [column.target_type for column in assessed.columns] == ["long", "string", "string"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"partitioning": {"shop.c*": ["region"]}}, "'region' of `partitioning` is not in the table"),
        ({"partitioning": {"*": ["year(name)"]}}, "cannot use year of the column 'name'"),
        ({"sortOrder": {"*": ["region desc"]}}, "'region' of `sortOrder` is not in the table"),
    ],
)
def test_partitions_and_orders_that_a_table_cannot_have_are_errors_of_the_assessment(
    settings: dict[str, Any], message: str
) -> None:
    with IcebergTarget(config(**settings)).create_table_assessor() as assessor:
        [finding] = [f for f in assessor.assess_table(KEYED).findings if f.code == "RPL-3430"]
    assert finding.severity is Severity.ERROR
    assert message in finding.description


def test_the_last_pattern_that_matches_decides_of_partitions() -> None:
    made = config(partitioning={"*": ["a"], "shop.cust*": ["b"], "shop.customers": []})
    assert made.partitioning_of(TableId("", "x", "shop")) == (PartitionTerm("identity", "a"),)
    assert made.partitioning_of(KEYED.table) == ()
    assert config(partitioning={"other.*": ["a"]}).partitioning_of(KEYED.table) is None


def test_names_in_the_catalog_have_no_dots_or_slashes_and_stay_different() -> None:
    assert str(identifier(TableId("d", "a.b/c", "s"))) == "s.a~2Eb~2Fc"
    assert identifier(TableId("d", "a~b")) != identifier(TableId("d", "a~7Eb"))
