"""Commits to a table on a Cloud Storage server; run as `python -m … ADDRESS PORT BUCKET`, prints what happened as JSON."""

from __future__ import annotations

import sys
from typing import Any

import fsspec

from replicator_target_delta.log.commit_files import commit_files
from tests.plugins.targets.delta.log.client_commits import Place, Scenes, session, show
from tests.services.gcs.server import reader, spark_settings
from tests.services.http_gate import Fault, RemoteGate

_MORE_THAN_A_PART = 51 * 2**20
"""Bytes that gcsfs sends in two requests by itself."""


def _careless(scenes: Scenes, server: RemoteGate, bucket: str) -> Any:
    """A server that ignores the condition, as gcsfs does in a zonal bucket; and what is in the bucket then."""
    server.set("ignores_conditions", True)
    code = scenes.unproved("careless")
    server.set("ignores_conditions", False)
    files = fsspec.filesystem("gs")
    files.invalidate_cache()
    return [code, files.find(f"{bucket}/careless")]


def main(address: str, port: str, bucket: str) -> None:
    """Run all scenes."""
    root, server = f"gs://{bucket}", RemoteGate(address)
    spark = session(spark_settings(address), root)
    scenes = Scenes(spark, Place(server, root, root, reader(int(port)), "POST"))
    found = {
        "commits": scenes.commits(),
        "files": scenes.files(),
        "again": scenes.again(),
        "late": scenes.late(),
        "race": scenes.race(),
        "faults": scenes.faults(Fault(status=429)),
        "expired": scenes.expired(),
        "refused": scenes.refused(403, 401),
        "renames at once": scenes.renames(),
        "careless": _careless(scenes, server, bucket),
        "large": commit_files(spark, f"{root}/large/_delta_log").create("x.json", b"1" * _MORE_THAN_A_PART),
    }
    show(found)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
