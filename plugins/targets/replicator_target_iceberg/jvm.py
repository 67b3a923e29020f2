"""The Java side: classes by name, Iceberg's catalog, and what its exceptions mean here."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError

from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_target_iceberg.config import IcebergConfig
from replicator_target_iceberg.naming import Identifier

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ICEBERG: Final = "org.apache.iceberg"
_REFUSED: Final = frozenset(
    {"NotAuthorizedException", "ForbiddenException", "AccessControlException", "AccessDeniedException"}
)
_WRONG_SETTING: Final = frozenset(
    {"IllegalArgumentException", "ClassNotFoundException", "NoSuchMethodException", "ValidationException"}
)


class Jvm:
    """Classes of the session's Java virtual machine by their full names; safe from any thread."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._root: Any = spark._jvm  # noqa: SLF001 - Iceberg's library has no Python interface
        self._found: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        """The class `name`; one below Iceberg's package when it begins with a dot."""
        full = ICEBERG + name if name.startswith(".") else name
        if full not in self._found:
            self._found[full] = functools.reduce(getattr, full.split("."), self._root)
        return self._found[full]

    def hadoop_configuration(self) -> Any:
        """The session's settings for Hadoop's file systems."""
        return self._spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001

    def strings(self, *values: str) -> Any:
        """An array of strings."""
        gateway: Any = self._spark.sparkContext._gateway  # noqa: SLF001
        array = gateway.new_array(self["java.lang.String"], len(values))
        for place, value in enumerate(values):
            array[place] = value
        return array


def java_exception(error: Exception) -> Any | None:
    """The Java exception that `error` was made of; None for another error. pyspark gives some of them types of its own."""
    return error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)


def class_names(error: Exception) -> list[str]:
    """The simple names of a Java exception and of its causes, the outer one first; their texts may hold passwords or values."""
    found: list[str] = []
    cause = java_exception(error)
    while cause is not None and len(found) < 8:
        found.append(str(cause.getClass().getSimpleName()))
        cause = cause.getCause()
    return found


@contextlib.contextmanager
def java_errors(what: str) -> Iterator[None]:
    """Translate what Java throws in the block; `what` is what was done, for the message.

    Raises:
        NeedsUserError: RPL-3421 when access is refused.
        RetryableError: RPL-4420 for anything else.
    """
    try:
        yield
    except Exception as error:
        if java_exception(error) is None:
            raise
        names = class_names(error)
        if _REFUSED & set(names):
            raise NeedsUserError(
                f"the catalog or the storage refuses access to {what} ({', '.join(names)})",
                code="RPL-3421",
                hint="grant the replicator that right, or correct the credentials in `catalogProperties`",
            ) from error
        raise RetryableError(
            f"the catalog or the storage failed to {what} ({', '.join(names)})",
            code="RPL-4420",
            hint="retried by itself; when it goes on, see Spark's log, and check that `uri` and `warehouse` can be reached",
        ) from error


class Catalog:
    """One connection to the catalog of the settings; safe from several threads, each with tables of its own.

    Raises:
        NeedsUserError: RPL-3422 when the catalog cannot be opened with these settings.
    """

    def __init__(self, spark: SparkSession, config: IcebergConfig) -> None:
        self.jvm = Jvm(spark)
        try:
            self._catalog = self.jvm[".CatalogUtil"].buildIcebergCatalog(
                config.catalog, config.properties(), self.jvm.hadoop_configuration()
            )
        except Exception as error:
            is_lacking = isinstance(error, TypeError)  # the class is not in this session
            if not is_lacking and java_exception(error) is None:
                raise
            names = ["Iceberg's runtime is not in the session"] if is_lacking else class_names(error)
            if _REFUSED & set(names) or _WRONG_SETTING & set(names[:1]) or is_lacking:
                raise _not_opened(config, names) from error
            raise RetryableError(
                f"the catalog {config.catalog!r} cannot be reached ({', '.join(names)})",
                code="RPL-4421",
                hint="retried by itself; check `uri`, its credentials and, for `jdbc`, that the driver's jar is in `spark.jars`",
            ) from error

    def close(self) -> None:
        """Give connections back; may be called twice."""
        with contextlib.suppress(Exception):  # a catalog without a close, or one whose server is gone
            self._catalog.close()

    def operations(self, name: Identifier) -> Any | None:
        """Java's `TableOperations` of a table; None when there is no table of that name."""
        with java_errors(f"open the table {name}"):
            try:
                return self._catalog.loadTable(self._identifier(name)).operations()
            except Py4JJavaError as error:
                if class_names(error)[0] in {"NoSuchTableException", "NoSuchNamespaceException"}:
                    return None
                raise

    def create(
        self, name: Identifier, schema: str, properties: dict[str, str], partitioning: str = "", sorting: str = ""
    ) -> Any:
        """A Java transaction that creates a table; nothing is there before it is committed, but for the namespace.

        Args:
            name: The table's.
            schema: Its columns, in JSON form, as are those that follow.
            properties: Of the table.
            partitioning: Its partition specification; empty for none.
            sorting: Its sort order; empty for none.
        """
        with java_errors(f"create the table {name}"):
            namespace = self._namespace(name)
            with contextlib.suppress(Py4JJavaError):  # a catalog without namespaces, or another run was quicker
                if not self._catalog.namespaceExists(namespace):
                    self._catalog.createNamespace(namespace, {})
            columns = self.jvm[".SchemaParser"].fromJson(schema)
            made = self._catalog.buildTable(self._identifier(name), columns)
            if partitioning:
                made = made.withPartitionSpec(self.jvm[".PartitionSpecParser"].fromJson(columns, partitioning))
            if sorting:
                made = made.withSortOrder(self.jvm[".SortOrderParser"].fromJson(columns, sorting))
            return made.withProperties(properties).createTransaction()

    def drop(self, name: Identifier) -> None:
        """Delete a table with its files; nothing when there is none."""
        with java_errors(f"delete the table {name}"):
            self._catalog.dropTable(self._identifier(name), True)

    def _namespace(self, name: Identifier) -> Any:
        return self.jvm[".catalog.Namespace"].of(self.jvm.strings(name.namespace))

    def _identifier(self, name: Identifier) -> Any:
        return self.jvm[".catalog.TableIdentifier"].of(self._namespace(name), name.name)


def _not_opened(config: IcebergConfig, names: list[str]) -> NeedsUserError:
    return NeedsUserError(
        f"the catalog {config.catalog!r} of the type {config.catalog_type} cannot be opened ({', '.join(names)})",
        code="RPL-3422",
        hint="correct `catalogType`, `uri`, `warehouse` and `catalogProperties`; a class that is missing comes with `spark.jars.packages` in `spark.conf`",
    )
