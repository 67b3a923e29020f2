"""Classes of the JVM are looked up once, not at each commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from replicator_target_delta.jvm_classes import JvmClasses
from tests.plugins.targets.changes import batch, insert, row
from tests.plugins.targets.delta.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of packages and classes that the JVM is asked for, each in every jar when it is a package's."""
    from py4j.java_gateway import JavaPackage

    names: list[str] = []
    ask = JavaPackage.__getattr__

    def noted(package: Any, name: str) -> Any:
        names.append(name)
        return ask(package, name)

    monkeypatch.setattr(JavaPackage, "__getattr__", noted)
    return names


def test_a_commit_after_the_first_looks_up_no_class(lake: Lake, looked_up: list[str]) -> None:
    consumer = lake.consumer()
    for number in (1, 2):
        consumer.apply_batch(batch(number, [insert(row(number))]))
    looked_up.clear()
    for number in (3, 4):
        consumer.apply_batch(batch(number, [insert(row(number))]))
    assert looked_up == []


def test_the_fixture_sees_a_lookup(spark: SparkSession, looked_up: list[str]) -> None:
    """What the test above relies on."""
    classes = JvmClasses(spark._jvm)
    assert classes["java.util.ArrayList"]().size() == 0
    assert "ArrayList" in looked_up
    looked_up.clear()
    assert classes["java.util.ArrayList"]().size() == 0
    assert looked_up == []


def test_sessions_of_one_jvm_share_their_classes(spark: SparkSession) -> None:
    assert JvmClasses.of(spark) is JvmClasses.of(spark.newSession())
