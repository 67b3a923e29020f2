"""Iceberg's reference REST catalog over a SQLite file, in Java of its own classes, inside the virtual machine of the tests' session."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyspark

from tests.services.artifacts import ICEBERG, ICEBERG_REST, fetch
from tests.services.processes import LOOPBACK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class RestCatalog:
    """One catalog; a context manager, in which it listens on a port of its own.

    Its classes are apart from the session's: only requests lead from one to the other.
    """

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        java: Any = spark._jvm
        self._jvm = java
        self._gateway: Any = spark.sparkContext._gateway
        self._folder = folder
        self._server: Any = None
        with ThreadPoolExecutor(8) as threads:
            own = list(threads.map(fetch, ICEBERG_REST))
        jars = [*own, fetch(ICEBERG[1]), *sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))]
        urls = self._array(self._jvm.java.net.URL, [self._jvm.java.io.File(str(jar)).toURI().toURL() for jar in jars])
        parent = self._jvm.java.lang.ClassLoader.getPlatformClassLoader()
        self._loader = self._jvm.java.net.URLClassLoader(urls, parent)
        self.uri = ""

    def __enter__(self) -> Self:
        # Java looks for database drivers once, by the class loader of whoever asks first: the session's has to be known before.
        self._jvm.java.sql.DriverManager.getDrivers()
        self._jvm.org.sqlite.JDBC()
        thread = self._jvm.java.lang.Thread.currentThread()
        before = thread.getContextClassLoader()
        thread.setContextClassLoader(self._loader)
        try:
            self._start()
        finally:
            thread.setContextClassLoader(before)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()

    def _start(self) -> None:
        catalog = self._backend({"uri": f"jdbc:sqlite:{self._folder}/rest.db", "warehouse": f"{self._folder}/lake"})
        adapter = self._new(
            "org.apache.iceberg.rest.RESTCatalogAdapter", ("org.apache.iceberg.catalog.Catalog", catalog)
        )
        servlet = self._new(
            "org.apache.iceberg.rest.RESTCatalogServlet", ("org.apache.iceberg.rest.RESTCatalogAdapter", adapter)
        )
        holder = self._new("org.eclipse.jetty.ee10.servlet.ServletHolder", ("jakarta.servlet.Servlet", servlet))
        handler = self._new("org.eclipse.jetty.ee10.servlet.ServletContextHandler")
        handler.setClassLoader(self._loader)
        handler.addServlet(holder, "/*")
        place = self._jvm.java.net.InetSocketAddress(LOOPBACK, 0)
        self._server = self._new("org.eclipse.jetty.server.Server", ("java.net.InetSocketAddress", place))
        self._server.setHandler(handler)
        self._server.start()
        self.uri = f"http://{LOOPBACK}:{self._server.getURI().getPort()}"

    def _backend(self, properties: Mapping[str, str]) -> Any:
        self._class("org.sqlite.JDBC").getDeclaredConstructor(self._array(self._jvm.java.lang.Class, [])).newInstance(
            self._array(self._jvm.java.lang.Object, [])
        )
        configuration = self._new("org.apache.hadoop.conf.Configuration")
        configuration.setClassLoader(self._loader)
        settings = self._jvm.java.util.HashMap()
        for name, value in {"type": "jdbc", "jdbc.schema-version": "V1", **properties}.items():
            settings.put(name, value)
        kinds = [self._class(f"java.{name}") for name in ("lang.String", "util.Map", "lang.Object")]
        build = self._class("org.apache.iceberg.CatalogUtil").getMethod(
            "buildIcebergCatalog", self._array(self._jvm.java.lang.Class, kinds)
        )
        return build.invoke(None, self._array(self._jvm.java.lang.Object, ["backend", settings, configuration]))

    def _new(self, name: str, *values: tuple[str, Any]) -> Any:
        """A new object of a class of the catalog's, by a constructor that takes these kinds of values."""
        kinds = self._array(self._jvm.java.lang.Class, [self._class(kind) for kind, _ in values])
        constructor = self._class(name).getConstructor(kinds)
        return constructor.newInstance(self._array(self._jvm.java.lang.Object, [value for _, value in values]))

    def _class(self, name: str) -> Any:
        return self._loader.loadClass(name)

    def _array(self, kind: Any, values: list[Any]) -> Any:
        made = self._gateway.new_array(kind, len(values))
        for place, value in enumerate(values):
            made[place] = value
        return made
