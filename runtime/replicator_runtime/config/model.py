"""The pipeline JSON as typed settings; the keys are those of `docs/seeds.md#001-replicator`.

Keys are camelCase in the JSON and snake_case here; a key not named here is an error. A stage's `properties` belong
to the plugin and stay as written, macros included, until the plugin is created.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, model_validator

from replicator_runtime.config.default_paths import default_base_path
from replicator_runtime.config.sections.lineage import LineageConfig
from replicator_runtime.config.sections.logs import LogsConfig
from replicator_runtime.config.sections.metrics import MetricsConfig
from replicator_runtime.config.sections.notifications import NotificationConfig
from replicator_runtime.config.sections.settings import Settings
from replicator_runtime.config.sections.slo import SloConfig, TableSloConfig
from replicator_sdk.authoring.sql_condition import condition_problem
from replicator_sdk.source import StartFrom

SOURCE_TYPES = ("cdcSource", "cdc-origin")
TARGET_TYPES = ("cdcTarget", "cdc-destination")
Name = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$",
        json_schema_extra={
            "rule": "must begin with a letter or digit and hold only letters, digits, _, . and -, 63 at most"
        },
    ),
]

DMLName = Literal["INSERT", "UPDATE", "DELETE"]
DDLName = Literal["CREATE_DATABASE", "DROP_DATABASE", "DROP_TABLE", "TRUNCATE_TABLE", "ALTER_TABLE", "RENAME_TABLE"]


class ArtifactConfig(Settings):
    """Where CDAP looks for a plugin. Accepted and shown, not used: plugins are installed packages."""

    scope: str = Field(default="", description="Accepted for compatibility with CDAP; not read.")
    name: str = Field(default="", description="Accepted for compatibility with CDAP; not read.")
    version: str = Field(default="", description="Accepted for compatibility with CDAP; not read.")


class PluginReference(Settings):
    """Which plugin a stage is, and its settings."""

    name: str = Field(min_length=1, description="The plugin's name, as `replicator plugins` lists it.")
    type: Literal["cdcSource", "cdc-origin", "cdcTarget", "cdc-destination"] = Field(
        description="`cdcSource` (or `cdc-origin`) for a source, `cdcTarget` (or `cdc-destination`) for a target."
    )
    artifact: ArtifactConfig | None = Field(default=None, description="Accepted for compatibility with CDAP; not read.")
    properties: dict[str, Any] = Field(
        default_factory=dict, description="The plugin's own settings; macros are allowed in every value."
    )

    @property
    def is_source(self) -> bool:
        """Whether this is a source's type, in either spelling."""
        return self.type in SOURCE_TYPES


class StageConfig(Settings):
    """A source or a target."""

    name: str = Field(
        min_length=1,
        pattern=r"\S",
        json_schema_extra={"rule": "must not be blank"},
        description="The stage's name, used by `connections`.",
    )
    plugin: PluginReference = Field(description="The plugin and its settings.")


class ConnectionConfig(Settings):
    """Joins two stages by name."""

    from_: str = Field(alias="from", description="Name of the source's stage.")
    to: str = Field(description="Name of the target's stage.")


class ColumnConfig(Settings):
    """A column to replicate."""

    name: str = Field(min_length=1, description="The column's name at the source.")
    suppress_warning: bool = Field(default=False, description="Leave out what an assessment says of this column.")


def _named_column(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


class TableConfig(Settings):
    """Tables to replicate: one by name, or many by pattern (`*` any characters, `?` one character)."""

    database: str | None = Field(default=None, description="The database, or a pattern; any when left out.")
    schema_: str | None = Field(
        default=None, alias="schema", description="The schema, or a pattern; any when left out."
    )
    table: str = Field(min_length=1, description="The table, or a pattern. A name always matches itself.")
    columns: tuple[Annotated[ColumnConfig, BeforeValidator(_named_column)], ...] | None = Field(
        default=None,
        min_length=1,
        description="Columns to replicate, as names or objects with `name`; the key is always included. All when left out.",
    )
    dml_blacklist: tuple[DMLName, ...] = Field(default=(), description="Changes of these tables to leave out.")
    ddl_blacklist: tuple[DDLName, ...] = Field(default=(), description="Schema changes of these tables to leave out.")
    where: str | None = Field(
        default=None,
        min_length=1,
        description="A condition in the source's SQL, such as `created_at >= '2024-01-01'`: a copy of these tables has only the rows for"
        " which it holds. Changes are not filtered.",
    )
    slo: TableSloConfig | None = Field(
        default=None, description="The freshness objective of these tables, where it is not the pipeline's."
    )
    exclude: bool = Field(default=False, description="Replicate none of these tables, whatever other entries select.")

    @model_validator(mode="after")
    def _excludes_whole_tables(self) -> Self:
        others = (self.columns, self.dml_blacklist, self.ddl_blacklist, self.where, self.slo)
        if self.exclude and any(others):
            raise ValueError(
                "an entry with `exclude` leaves whole tables out: it has no columns, no blacklists, no `where` and no `slo`"
            )
        return self

    @model_validator(mode="after")
    def _condition_is_one_expression(self) -> Self:
        if self.where is not None and (why := condition_problem(self.where)):
            raise ValueError(f"`where` must be one condition of a SELECT, without what could end it: {why}")
        return self


def _table_pattern(text: str) -> str:
    if not all(text.split(".")):
        raise ValueError("a table is named `table`, `schema.table` or `database.schema.table`; `*` and `?` are allowed")
    return text


NO_TIME = "is no time in ISO 8601 with a zone: write it as 2026-01-31T08:00:00Z or 2026-01-31T08:00:00+01:00"


def zoned_time(text: str) -> datetime | None:
    """The moment that `text` writes in ISO 8601 with a zone; None when it writes none."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def _time_text(text: str) -> str:
    if zoned_time(text) is None:
        raise ValueError(f"it {NO_TIME}")
    return text


class StartConfig(Settings):
    """Where the log is read from, in a pipeline that copies no rows: one of the two."""

    offset: str | None = Field(
        default=None,
        min_length=1,
        description="A position of the source's log. `sqlite`: a change number. `mysql`: GTIDs, or `file:position`. `postgres`: an LSN. `archive`: a manifest and an entry, `120/0`.",
    )
    time: Annotated[str, AfterValidator(_time_text)] | None = Field(
        default=None,
        description="A moment in ISO 8601 with a zone: the first transaction that was committed then or later is the first that is read.",
    )

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        if (self.offset is None) == (self.time is None):
            raise ValueError("`from` has either `offset` or `time`")
        return self

    @property
    def start(self) -> StartFrom:
        """The same for a source."""
        return StartFrom(self.offset or "", None if self.time is None else zoned_time(self.time))


class SnapshotConfig(Settings):
    """How existing rows are copied."""

    mode: Literal["initial", "never", "only"] = Field(
        default="initial",
        description="`initial`: existing rows, then every change. `never`: tables are created empty, and get the changes from then on. `only`: a run ends when all tables are at the target as of one position, which is"
        " after its start, and removes what it needed at the source; no later run follows the log.",
    )
    from_: StartConfig | None = Field(
        default=None,
        alias="from",
        description="With `never`: tables get the changes after this position of the log, which the source still has, instead of those from now on. It counts at the first start only.",
    )
    max_rows_per_second: float | None = Field(
        default=None,
        gt=0,
        description="How many rows all copies together read in a second, on average; as fast as they can when left out. A chunk"
        " is read at once, and then the copies wait.",
    )
    order: tuple[Annotated[str, AfterValidator(_table_pattern)], ...] = Field(
        default=(),
        description="Which tables are copied first: names as `table`, `schema.table` or `database.schema.table`, or patterns. The others follow.",
    )

    @model_validator(mode="after")
    def _start_is_of_never(self) -> Self:
        if self.from_ is not None and self.mode != "never":
            raise ValueError('`from` is of `"mode": "never"`: a copy begins where the source is when it is made')
        return self


class RetriesConfig(Settings):
    """How long a failure is retried."""

    max_duration_seconds: float | None = Field(
        default=None, ge=0, description="Give up after this time without progress; never when left out."
    )
    delay_seconds: float = Field(default=10.0, gt=0, description="The longest wait between two attempts.")


class FailingTablesConfig(Settings):
    """What follows when a table fails for long."""

    lane_after_minutes: float | None = Field(
        default=10.0,
        gt=0,
        description="After so long the changes of a failing table go to a lane, and the source's log is held for it no more; never when null.",
    )
    hold_log_hours: float = Field(
        default=24.0,
        gt=0,
        description="For how long a failing table that has no lane may hold the source's log; then it is copied again instead, and the offset moves.",
    )
    max_copy_delay_seconds: float = Field(
        default=3600.0,
        gt=0,
        description="The longest wait before such a copy is tried once more; the first is a minute, and each is twice the one before.",
    )


class LanesConfig(Settings):
    """How much is kept of the changes of a paused table, or of one that has failed for long."""

    max_bytes: int = Field(
        default=10_737_418_240,
        ge=1,
        description="A lane with more bytes on the state's file system is dropped, and its table copied again: when it is resumed, or at once if it fails.",
    )
    max_hours: float = Field(
        default=168.0, gt=0, description="The same of a lane whose oldest change has been in it for so long."
    )


class DeadLettersConfig(Settings):
    """How many rows are put aside of one table under `onDataError: lane`; one more makes the table fail."""

    max_rows: int = Field(default=10_000, ge=1, description="Rows of one table.")
    max_bytes: int = Field(default=67_108_864, ge=1024, description="Bytes of one table's rows, about.")


Policy = Literal["apply", "ask", "fail"]
KeepingPolicy = Literal["apply", "ignore", "ask", "fail"]


class DDLPoliciesConfig(Settings):
    """What follows at the target from changes of structure at the source.

    `apply` follows them, `ask` holds the table's changes in its lane until `replicator ddl approve` or `ddl reject`, `fail`
    stops the table, and `ignore` keeps what the target has.
    """

    add_column: Policy = Field(default="apply", description="A column is added.")
    drop_column: KeepingPolicy = Field(
        default="apply", description="A column is dropped. `ignore` keeps it; new rows have NULL there."
    )
    rename_column: Policy = Field(default="apply", description="A column is renamed.")
    widen_type: Policy = Field(default="apply", description="A column's new type holds all values of the former one.")
    change_type: Policy = Field(default="apply", description="A column gets another type that may not.")
    truncate: KeepingPolicy = Field(default="apply", description="All rows are removed. `ignore` keeps them.")
    drop_table: KeepingPolicy = Field(default="apply", description="A table is dropped. `ignore` keeps the target's.")

    @property
    def edited(self) -> dict[str, str]:
        """The policies other than `apply`, by the name of the kind as in the JSON."""
        return {name: policy for name, policy in self.model_dump(by_alias=True).items() if policy != "apply"}


_LEFT_OUT_BY: dict[DDLName, tuple[str, ...]] = {
    "ALTER_TABLE": ("addColumn", "dropColumn", "renameColumn", "widenType", "changeType"),
    "TRUNCATE_TABLE": ("truncate",),
    "DROP_TABLE": ("dropTable",),
}


def _as_spark_writes_it(value: object) -> object:
    """Spark's settings are text; JSON numbers and booleans are taken in the spelling Spark reads."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (int, float)) else value


SparkSetting = Annotated[str, BeforeValidator(_as_spark_writes_it)]


class SparkConfig(Settings):
    """The Spark session."""

    master: str = Field(default="local[*]", min_length=1, description="Spark's master URL.")
    conf: dict[str, SparkSetting] = Field(
        default_factory=dict, description="Spark settings; they win over what plugins ask for. No secrets."
    )


class BatchConfig(Settings):
    """When gathered changes are applied: at the first commit past any of these limits."""

    max_rows: int = Field(default=500_000, ge=1, description="Changes in a batch.")
    max_bytes: int = Field(default=134_217_728, ge=1024, description="Bytes held for a batch.")
    max_interval_seconds: float | None = Field(
        default=None,
        ge=0,
        description="Seconds since the batch's first change. When left out, none for a change that comes alone, else 1, and up to 4 while few "
        "rows come all the time.",
    )


class ParallelismConfig(Settings):
    """How much is done at once."""

    tables: int = Field(
        default=4,
        ge=1,
        validation_alias=AliasChoices("tables", "numInstances"),
        description="Tables snapshotted or applied at once (`numInstances` in the CDAP form).",
    )


class OffsetsConfig(Settings):
    """How many older offsets are kept for a rewind."""

    keep_count: int = Field(default=100, ge=1, description="At least so many are kept, whatever their age.")
    keep_days: float = Field(default=7.0, ge=0, description="Beyond that number, those younger than this are kept.")


class ArchiveConfig(Settings):
    """Where every change is archived as well."""

    path: str = Field(
        min_length=1,
        description="Folder or fsspec URL of the archive, of this pipeline alone; options as for `offsetBasePath`. It holds row values.",
    )
    keep_days: float | None = Field(
        default=None, gt=0, description="Older files are deleted, those of copies too; all are kept when left out."
    )
    flush_seconds: float = Field(
        default=60.0, ge=0, description="How long changes are at most in the state before they are in the archive."
    )


class MaintenanceConfig(Settings):
    """The target's maintenance of its tables; how often each table has it are settings of the target."""

    max_seconds_at_end: float = Field(
        default=60.0,
        ge=0,
        description="How long `run --until-current` does the maintenance that is due, once all changes are applied. "
        "The step that is under way then ends first.",
    )


class ResourcesConfig(Settings):
    """What one process may use."""

    vcores: int | None = Field(default=None, ge=1, description="Cores for a local Spark; all when left out.")
    memory_mb: int | None = Field(
        default=None, alias="memoryMB", ge=512, description="Memory of the Spark driver; chosen when left out."
    )


class PipelineConfig(Settings):
    """A whole pipeline."""

    name: Name = Field(description="Names the replicator and its state.")
    namespace: Name = Field(default="default", description="Keeps replicators of one name apart.")
    description: str = Field(default="", description="For people.")
    offset_base_path: str = Field(
        default_factory=default_base_path,
        min_length=1,
        description="Folder or fsspec URL of offsets and state; `$XDG_STATE_HOME/replicator` when left out.",
    )
    stages: tuple[StageConfig, ...] = Field(description="One source and one target.")
    connections: tuple[ConnectionConfig, ...] = Field(description="Joins the source to the target.")
    tables: tuple[TableConfig, ...] = Field(default=(), description="What to replicate; everything when left out.")
    dml_blacklist: tuple[DMLName, ...] = Field(default=(), description="Changes to leave out, in every table.")
    ddl_blacklist: tuple[DDLName, ...] = Field(
        default=("DROP_DATABASE",), description="Schema changes to leave out, in every table."
    )
    ddl_policies: DDLPoliciesConfig = Field(
        default_factory=DDLPoliciesConfig,
        description="What follows at the target from changes of structure at the source.",
    )
    retries: RetriesConfig = Field(default_factory=RetriesConfig, description="How long a failure is retried.")
    spark: SparkConfig = Field(default_factory=SparkConfig, description="The Spark session.")
    batch: BatchConfig = Field(default_factory=BatchConfig, description="When gathered changes are applied.")
    parallelism: ParallelismConfig = Field(default_factory=ParallelismConfig, description="How much is done at once.")
    on_table_error: Literal["isolate", "stop"] = Field(
        default="isolate",
        description="Whether a failing table stops alone (`isolate`) or stops the replicator (`stop`).",
    )
    on_data_error: Literal["fail", "lane", "null"] = Field(
        default="fail",
        description="What follows when source or target refuses a value: the table fails (`fail`), its row is put aside as a dead"
        " letter and the target has no row of that key until it is whole again (`lane`), or the value becomes NULL (`null`; a"
        " table fails whose column cannot be NULL). A key's value always fails.",
    )
    dead_letters: DeadLettersConfig = Field(
        default_factory=DeadLettersConfig, description="How many rows `onDataError: lane` puts aside."
    )
    failing_tables: FailingTablesConfig = Field(
        default_factory=FailingTablesConfig, description="What follows when a table fails for long."
    )
    lanes: LanesConfig = Field(default_factory=LanesConfig, description="How much is kept of a paused table's changes.")
    snapshot: SnapshotConfig = Field(default_factory=SnapshotConfig, description="How existing rows are copied.")
    new_tables: Literal["include", "ignore"] = Field(
        default="include", description="Whether tables that appear later and match `tables` are taken in."
    )
    new_tables_interval_seconds: float = Field(
        default=60.0, gt=0, description="How often the source is asked for new tables."
    )
    edits: Literal["ask", "apply"] = Field(
        default="ask",
        description="Whether a run begins only after `replicator approve` when edits of this file remove or replace what the target has,"
        " or need a new copy to be undone (`ask`), or at once (`apply`).",
    )
    offsets: OffsetsConfig = Field(default_factory=OffsetsConfig, description="How many older offsets are kept.")
    maintenance: MaintenanceConfig = Field(
        default_factory=MaintenanceConfig, description="The target's maintenance of its tables."
    )
    archive: ArchiveConfig | None = Field(
        default=None, description="Every change is appended to Parquet files as well; none when left out."
    )
    notifications: tuple[NotificationConfig, ...] = Field(
        default=(),
        max_length=20,
        description="Services that are notified of conditions: a chat, mail, a pager, a webhook.",
    )
    logs: LogsConfig = Field(default_factory=LogsConfig, description="The log lines that are kept beside the state.")
    metrics: MetricsConfig = Field(default_factory=MetricsConfig, description="Where a run shows its metrics.")
    lineage: LineageConfig | None = Field(
        default=None, description="Lineage is published as OpenLineage events; none is when left out."
    )
    slo: SloConfig | None = Field(
        default=None, description="The freshness objective of all tables; none is measured when left out."
    )
    resources: ResourcesConfig = Field(default_factory=ResourcesConfig, description="What one process may use.")

    @model_validator(mode="after")
    def _says_one_thing_of_each_change(self) -> Self:
        for name in self.ddl_blacklist:
            both = sorted(self.ddl_policies.edited.keys() & set(_LEFT_OUT_BY.get(name, ())))
            if both:
                raise ValueError(
                    f"`ddlBlacklist` leaves {name} out, and `ddlPolicies` has another policy for {', '.join(both)}: take one of them away"
                )
        return self
