"""Commits to a table on Azurite; run as `python -m …`, prints what happened as JSON."""

from __future__ import annotations

import os

from tests.plugins.targets.delta.log.client_commits import Place, Scenes, session, show
from tests.services.azure import server as azure


def main() -> None:
    """Run all scenes."""
    from azure.storage.blob._shared.policies_async import ExponentialRetry

    setattr(ExponentialRetry, "get_backoff_time", lambda self, settings: 0.05)  # noqa: B010
    server = azure.start()
    os.environ.update(server.environment)
    try:
        container = server.container()
        root = f"abfs://{container}@{azure.ACCOUNT}.dfs.core.windows.net"
        spark = session(azure.spark_settings(server), root)
        scenes = Scenes(spark, Place(server, root, f"az://{container}", azure.reader(server), "PUT"))
        show(
            {
                "commits": scenes.commits(),
                "files": scenes.files(),
                "again": scenes.again(),
                "late": scenes.late(),
                "race": scenes.race(),
                "faults": scenes.faults(),
                "expired": scenes.expired(),
                "refused": scenes.refused(403, 401),
                "renames at once": scenes.renames(),
            }
        )
        spark.stop()
    finally:
        server.stop()


if __name__ == "__main__":
    main()
