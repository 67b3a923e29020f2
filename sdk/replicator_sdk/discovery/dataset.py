"""How lineage names tables: the names of datasets by OpenLineage's rules, so that other programs' lineage meets at the same table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from replicator_sdk.schema import TableId, TableSchema


@dataclass(frozen=True, slots=True)
class Dataset:
    """A table as lineage names it, without any secret.

    Attributes:
        namespace: Where it is, such as `postgres://db.example.com:5432`, `s3://bucket` or `file`.
        name: Which one it is there, such as `shop.public.orders`, or a path.
    """

    namespace: str
    name: str


class NamesDatasets:
    """What sources and targets have in common: each table has a dataset."""

    name: ClassVar[str]

    def dataset(self, table: TableId) -> Dataset:
        """The name of `table` in lineage; answered from settings, without a request, for any thread.

        A plugin overrides it with [OpenLineage's name](https://openlineage.io/docs/spec/naming) of its system. The default is
        the plugin's name, and the table's full name.
        """
        parts = (table.database, table.schema, table.table)
        return Dataset(self.name, ".".join(part for part in parts if part))


class NamesTargetDatasets(NamesDatasets):
    """What a target says of its datasets."""

    def dataset_columns(self, schema: TableSchema) -> Mapping[str, str]:
        """The target's column of each column of `schema`; by default the same names. Answered as `dataset`."""
        return {column.name: column.name for column in schema.columns}


def path_dataset(path: str) -> Dataset:
    """The dataset of a file or folder, given by a path of this machine or by a URL.

    Credentials and options in a URL are left out. `s3a` and `s3n` are `s3`, and `gcs` is `gs`, whatever a client calls them.
    """
    parts = urlsplit(path)
    scheme = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}.get(parts.scheme, parts.scheme)
    if "://" not in path and scheme != "file":
        return Dataset("file", str(Path(path).expanduser().absolute()))
    if scheme == "file":
        return Dataset("file", "/" + parts.path.strip("/"))
    inside = parts.path.strip("/")
    user, at, host = parts.netloc.rpartition("@")
    if scheme in {"abfs", "abfss", "wasb", "wasbs"}:  # the container is before the @, and no user
        return Dataset(f"{scheme}://{user.partition(':')[0]}{at}{host}", inside or "/")
    if scheme == "hdfs":
        return Dataset(f"{scheme}://{host}", f"/{inside}")
    return Dataset(f"{scheme}://{host}", inside or "/")
