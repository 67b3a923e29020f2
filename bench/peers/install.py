"""Installs the peers once, from PyPI and Maven Central, below the cache folder; nothing lands in the tree."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.services.artifacts import cache_folder

DEBEZIUM = "3.5.0.Final"  # the newest version whose jars are all on Maven Central
KAFKA = "4.1.1"
ICEBERG = "1.10.1"
HADOOP = "3.4.1"

ENVIRONMENTS: dict[str, tuple[str, ...]] = {
    "dlt": (
        "dlt[deltalake,filesystem]==1.31.0",
        "connectorx==0.4.6",
        "deltalake==1.6.6",
        "psycopg2-binary==2.9.13",
        "sqlalchemy>=2",
    ),
    "connectorx": ("connectorx==0.4.6", "pyarrow==26.0.1"),
}

LIBRARIES: dict[str, tuple[str, ...]] = {
    "debezium-embedded": (
        f"io.debezium:debezium-embedded:{DEBEZIUM}",
        f"io.debezium:debezium-api:{DEBEZIUM}",
        f"io.debezium:debezium-connector-postgres:{DEBEZIUM}",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
    "kafka": (
        f"org.apache.kafka:kafka_2.13:{KAFKA}",
        f"org.apache.kafka:connect-runtime:{KAFKA}",
        f"org.apache.kafka:connect-json:{KAFKA}",
        f"org.apache.kafka:connect-transforms:{KAFKA}",
        f"org.apache.kafka:kafka-tools:{KAFKA}",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
    "connect/debezium-postgres": (f"io.debezium:debezium-connector-postgres:{DEBEZIUM}",),
    "connect/debezium-mysql": (f"io.debezium:debezium-connector-mysql:{DEBEZIUM}",),
    "connect/debezium-mariadb": (f"io.debezium:debezium-connector-mariadb:{DEBEZIUM}",),
    "connect/debezium-jdbc": (
        f"io.debezium:debezium-connector-jdbc:{DEBEZIUM}",
        "org.postgresql:postgresql:42.7.4",
    ),
    "connect/iceberg": (
        f"org.apache.iceberg:iceberg-kafka-connect:{ICEBERG}",
        f"org.apache.iceberg:iceberg-kafka-connect-transforms:{ICEBERG}",
        f"org.apache.iceberg:iceberg-data:{ICEBERG}",
        f"org.apache.iceberg:iceberg-parquet:{ICEBERG}",
        f"org.apache.iceberg:iceberg-orc:{ICEBERG}",
        f"org.apache.hadoop:hadoop-client-api:{HADOOP}",
        f"org.apache.hadoop:hadoop-client-runtime:{HADOOP}",
        f"org.apache.hadoop:hadoop-common:{HADOOP}",
    ),
}


def folder() -> Path:
    """Where the peers live; made when missing."""
    path = cache_folder() / "bench"
    path.mkdir(parents=True, exist_ok=True)
    return path


def python(name: str) -> Path:
    """The interpreter of one of `ENVIRONMENTS`."""
    packages = ENVIRONMENTS[name]
    environment = folder() / f"{name}-{_digest(packages)}"
    python = environment / "bin/python"
    if not python.exists():
        partial = environment.with_name(environment.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", partial], check=True)
        subprocess.run([partial / "bin/python", "-m", "pip", "install", "--quiet", *packages], check=True)
        partial.rename(environment)  # the interpreter finds its packages by its own place; scripts are not used
    return python


def jars(library: str) -> Path:
    """A folder with the jars of one of `LIBRARIES` and all they need, resolved by Maven into a repository of our own.

    Raises:
        FileNotFoundError: When there is no `mvn` (Debian package `maven`).
    """
    coordinates = LIBRARIES[library]
    target = folder() / "jars" / f"{library}-{_digest(coordinates)}"
    if target.exists():
        return target
    if shutil.which("mvn") is None:
        raise FileNotFoundError("mvn is needed to install the Java peers: apt-get install maven")
    partial = target.with_name(target.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    pom = partial / "pom.xml"
    pom.write_text(_pom(coordinates))
    command: list[str | Path] = ["mvn", "-q", "-B", f"-Dmaven.repo.local={folder() / 'maven'}", "-f", pom]
    subprocess.run([*command, "dependency:copy-dependencies", f"-DoutputDirectory={partial}"], check=True)
    if library.startswith("connect/debezium"):
        for repeated in partial.glob(
            "jackson-*.jar"
        ):  # two Jacksons in two class loaders do not know each other's modules
            repeated.unlink()
    pom.unlink()
    partial.rename(target)
    return target


def connect_plugins() -> Path:
    """The folder in which Kafka Connect finds its plugins, each in a folder of its own."""
    return [jars(each).parent for each in LIBRARIES if each.startswith("connect/")].pop()


def java_class(source: Path, classpath: Path) -> Path:
    """Compiles one Java source against the jars of `classpath`; returns the folder of the class files."""
    target = folder() / "classes" / f"{source.stem}-{_digest([source.read_text()])}"
    if not target.exists():
        target.mkdir(parents=True)
        subprocess.run(["javac", "-cp", f"{classpath}/*", "-d", target, source], check=True)
    return target


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]


def _pom(coordinates: Sequence[str]) -> str:
    dependencies = ""
    for coordinate in coordinates:
        group, name, version = coordinate.split(":")
        place = f"<groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        dependencies += f"<dependency>{place}</dependency>"
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>bench</groupId><artifactId>peer</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )


if __name__ == "__main__":
    for each in ENVIRONMENTS:
        print(python(each))
    for each in LIBRARIES:
        print(jars(each))
