"""Built-in sources and targets name their tables as OpenLineage's own classes do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from openlineage.client.naming import dataset as naming

from replicator_runtime.plugin_host import PluginHost
from replicator_sdk import Column, TableId, TableSchema
from replicator_sdk.datatype import INT64
from replicator_sdk.discovery.dataset import Dataset, NamesTargetDatasets, path_dataset

ORDERS = TableId("shop", "orders", "public")


def dataset(kind: str, name: str, table: TableId = ORDERS, **properties: Any) -> Dataset:
    host = PluginHost()
    plugin: Any = host.source(name) if kind == "source" else host.target(name)
    made = plugin(plugin.config_type.model_validate(properties, by_alias=True))
    found = made.dataset(table)
    assert isinstance(found, Dataset)
    return found


def named(found: naming.DatasetNaming) -> Dataset:
    return Dataset(found.get_namespace(), found.get_name())


_LOGIN: dict[str, Any] = {"user": "replicator", "password": "hunter2-hunter2"}


def test_postgres() -> None:
    found = dataset("source", "postgres", host="db.example.com", port=5433, database="shop", **_LOGIN)
    assert found == named(naming.Postgres("db.example.com", "5433", "shop", "public", "orders"))
    local = dataset("source", "postgres", host="/var/run/postgresql", database="shop", **_LOGIN)
    assert local.namespace == "postgres://localhost:5432"


def test_mysql() -> None:
    found = dataset("source", "mysql", TableId("shop", "orders"), host="db", **_LOGIN)
    assert found == named(naming.MySQL("db", "3306", "shop", "orders"))


@pytest.mark.parametrize(
    ("topics", "topic"),
    [
        (["any"], "any"),
        (["p.public.items", "p.public.orders"], "p.public.orders"),
        (["items", "orders"], "orders"),
        (["items", "others"], "shop.public.orders"),
    ],
)
def test_kafka(topics: list[str], topic: str) -> None:
    found = dataset("source", "kafka", bootstrapServers="k1:9092, k2:9092", topics=topics)
    assert found == named(naming.Kafka("k1", "9092", topic))


def test_files_of_sqlite_and_of_an_archive(tmp_path: Path) -> None:
    table = TableId("main", "orders")
    assert dataset("source", "sqlite", table, path=str(tmp_path / "shop.db")) == Dataset(
        "file", f"{tmp_path}/shop.db/orders"
    )
    assert dataset("source", "archive", path="s3://kept/archive") == Dataset("s3://kept", "archive/shop.public.orders")


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("s3a://lake/tables", naming.S3("lake", "tables/public/orders")),
        ("gs://lake/tables/", naming.GCS("lake", "tables/public/orders")),
        ("abfss://c@a.dfs.core.windows.net/t", naming.ABFSS("c", "a", "t/public/orders")),
        ("hdfs://n:8020/t", naming.HDFS("n", "8020", "/t/public/orders")),
        ("/data/lake", naming.LocalFileSystem("/data/lake/public/orders")),
        ("file:///data/lake", naming.LocalFileSystem("/data/lake/public/orders")),
    ],
)
def test_folders_of_delta_tables(path: str, wanted: naming.DatasetNaming) -> None:
    assert dataset("target", "delta", path=path) == named(wanted)


def test_bigquery() -> None:
    found = dataset("target", "bigquery", project="p", datasetProject="d", stagingBucket="b")
    assert found == named(naming.BigQuery("d", "public", "orders"))
    kind = PluginHost().target("bigquery")
    made: Any = kind(kind.config_type.model_validate({"project": "p", "stagingBucket": "b"}, by_alias=True))
    schema = TableSchema(ORDERS, (Column("id", INT64), Column("größe in m", INT64)))
    assert made.dataset_columns(schema) == {"id": "id", "größe in m": "gr__e_in_m"}


def test_a_plugin_that_says_nothing_has_a_name_all_the_same() -> None:
    class Stranger(NamesTargetDatasets):
        name = "acme"

    assert Stranger().dataset(ORDERS) == Dataset("acme", "shop.public.orders")
    assert Stranger().dataset(TableId("shop", "orders")) == Dataset("acme", "shop.orders")
    assert Stranger().dataset_columns(TableSchema(ORDERS, (Column("id", INT64),))) == {"id": "id"}


@pytest.mark.parametrize(
    "url", ["s3://key:hunter2@bucket/x?token=hunter2", "memory://u:hunter2@place/x", "abfs://c:hunter2@a/x"]
)
def test_credentials_in_a_url_are_left_out(url: str) -> None:
    found = path_dataset(url)
    assert "hunter2" not in f"{found}"
    assert found.name == "x"
