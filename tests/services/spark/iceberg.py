"""Iceberg's runtime in a Spark session that runs already: only the tests of that target pay for its jar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.services.artifacts import iceberg_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def with_iceberg(spark: SparkSession) -> SparkSession:
    """The same session; the driver's classes include Iceberg's and the SQLite driver's from now on."""
    java: Any = spark._jvm
    loader = java.java.lang.Thread.currentThread().getContextClassLoader()
    there = {str(url.toString()) for url in loader.getURLs()}
    for jar in iceberg_jars():
        url = java.java.io.File(str(jar)).toURI().toURL()
        if str(url.toString()) not in there:
            loader.addURL(url)
    return spark
