"""Looks up classes of the JVM, each once."""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA: Final = "org.apache.spark.sql.delta"


class JvmClasses:
    """The classes and Scala objects of one JVM by their full names; safe from any thread.

    `jvm.org.apache.spark.sql.delta.DeltaLog` asks the JVM for each part of the name, and the JVM looks for a class of the name
    `org`, `org.apache` and so on in every jar there is. That was most of the time of a small commit.
    """

    _of: Final[weakref.WeakKeyDictionary[Any, JvmClasses]] = weakref.WeakKeyDictionary()

    def __init__(self, jvm: Any) -> None:
        self._root = weakref.ref(jvm)
        self._found: dict[str, Any] = {}

    @classmethod
    def of(cls, spark: SparkSession) -> JvmClasses:
        """The classes of the JVM that `spark` runs in; other ones once Java was started again."""
        jvm: Any = spark._jvm  # noqa: SLF001 - Delta's transactions and Hadoop's file systems have no Python interface
        return cls._of.get(jvm) or cls._of.setdefault(jvm, cls(jvm))

    def __getitem__(self, name: str) -> Any:
        """The class of this full name."""
        if name not in self._found:
            self._found[name] = functools.reduce(getattr, name.split("."), self._root())
        return self._found[name]

    def scala_object(self, name: str) -> Any:
        """The Scala object of this full name."""
        key = f"{name}$.MODULE$"
        if key not in self._found:
            self._found[key] = getattr(self[f"{name}$"], "MODULE$")
        return self._found[key]

    def path(self, location: str) -> Any:
        """Hadoop's `Path` of a location."""
        return self["org.apache.hadoop.fs.Path"](location)
