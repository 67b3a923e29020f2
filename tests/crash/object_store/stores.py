"""The object stores on which a replicator is killed: where its tables and its state are, and how others read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.services.azure import server as azure
from tests.services.gcs import server as gcs
from tests.services.s3.server import S3Server
from tests.services.s3.spark import s3a_settings


@dataclass(frozen=True)
class Store:
    """A bucket or a container.

    Attributes:
        root: Its URL for the replicator.
        readable: Its URL for deltalake.
        options: With which deltalake reads there.
        spark: The settings with which Spark opens it.
    """

    root: str
    readable: str
    options: Mapping[str, str]
    spark: Mapping[str, str]


def on_s3(server: S3Server, bucket: str) -> Store:
    """A bucket of S3."""
    return Store(f"s3://{bucket}", f"s3://{bucket}", server.reader, s3a_settings(server.endpoint))


def on_cloud_storage(server: gcs.GcsServer, bucket: str) -> Store:
    """A bucket of Cloud Storage."""
    return Store(f"gs://{bucket}", f"gs://{bucket}", gcs.reader(server.port), gcs.spark_settings(server.address))


def on_azure(server: azure.AzureServer, container: str) -> Store:
    """A container of Azure."""
    root = f"abfs://{container}@{azure.ACCOUNT}.dfs.core.windows.net"
    return Store(root, f"az://{container}", azure.reader(server), azure.spark_settings(server))
