"""The addresses of a source table's target, staging table and commit log, in each form that an API takes."""

from __future__ import annotations

from dataclasses import dataclass

from replicator_sdk.errors import NeedsUserError
from replicator_sdk.schema import TableId
from replicator_target_bigquery.config import COMMITS, COPY, UNMATCHED, BigQueryConfig
from replicator_target_bigquery.schema.names import is_own_table, staged_names, table_name
from replicator_target_bigquery.sql.text import name


@dataclass(frozen=True, slots=True)
class TableRef:
    """A table's address.

    Attributes:
        project: The project of the dataset.
        dataset: The dataset.
        table: The table's name.
        staging: The name of its staging table, in the same dataset.
    """

    project: str
    dataset: str
    table: str
    staging: str

    @classmethod
    def of(cls, table: TableId, config: BigQueryConfig) -> TableRef:
        """The address of the target table of `table`.

        Raises:
            NeedsUserError: When its name is one of the replicator's own.
        """
        target = table_name(table.table)
        if is_own_table(config, target):
            raise NeedsUserError(
                f"a table named {target} would be taken for one of the replicator's own",
                code="RPL-6520",
                table=str(table),
                hint="choose another `stagingTablePrefix`, or rename the table at the source",
            )
        dataset = table_name(config.dataset_name or table.folder)
        return cls(config.datasets_in, dataset, target, staged_names(config, target))

    @property
    def sql(self) -> str:
        """The table in a statement."""
        return name(self.project, self.dataset, self.table)

    @property
    def staging_sql(self) -> str:
        """The staging table in a statement."""
        return name(self.project, self.dataset, self.staging)

    @property
    def commits_sql(self) -> str:
        """The dataset's commit log in a statement."""
        return name(self.project, self.dataset, COMMITS)

    @property
    def unmatched_sql(self) -> str:
        """The table of removals whose rows are not there yet, in a statement."""
        return name(self.project, self.dataset, UNMATCHED + self.table)

    @property
    def unmatched_id(self) -> str:
        """The same as Google's client takes it."""
        return f"{self.project}.{self.dataset}.{UNMATCHED}{self.table}"

    def copy_id(self, snapshot_id: str) -> str:
        """The table in which the copy of a plan is made, as Google's client takes it."""
        return f"{self.project}.{self.dataset}.{self._copy(snapshot_id)}"

    def copy_sql(self, snapshot_id: str) -> str:
        """The same in a statement."""
        return name(self.project, self.dataset, self._copy(snapshot_id))

    def _copy(self, snapshot_id: str) -> str:
        return f"{COPY}{table_name(snapshot_id)}_{self.table}"

    @property
    def id(self) -> str:
        """The table as Google's client takes it."""
        return f"{self.project}.{self.dataset}.{self.table}"

    @property
    def path(self) -> str:
        """The table as the Storage Write API takes it."""
        return f"projects/{self.project}/datasets/{self.dataset}/tables/{self.table}"

    @property
    def staging_id(self) -> str:
        """The staging table, likewise."""
        return f"{self.project}.{self.dataset}.{self.staging}"

    @property
    def commits_id(self) -> str:
        """The commit log, likewise."""
        return f"{self.project}.{self.dataset}.{COMMITS}"


def default_stream(path: str) -> str:
    """The stream that every table has, by the table's path."""
    return f"{path}/streams/_default"
