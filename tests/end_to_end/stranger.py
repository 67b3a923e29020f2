"""The stranger's package, installed by pip outside this tree, and the command run in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parent / "stranger_package"


def pip_install(folder: Path, *packages: Path) -> Path:
    """Build packages, by default the stranger's, and install them into `folder`/site; returns that folder."""
    site = folder / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    command += [
        "--disable-pip-version-check",
        "--root-user-action=ignore",
        "--target",
        str(site),
        *map(str, packages or [PACKAGE]),
    ]
    subprocess.run(command, check=True, timeout=120)
    return site


@dataclass(frozen=True)
class Stranger:
    """A journal, a ledger and a pipeline between them, in one folder.

    Attributes:
        site: Where the package is installed.
        folder: Journal, ledger, state and pipeline.
    """

    site: Path
    folder: Path

    @property
    def journal(self) -> Path:
        return self.folder / "journal.jsonl"

    @property
    def pipeline(self) -> Path:
        return self.folder / "pipeline.json"

    def write_pipeline(self, more: dict[str, Any] | None = None, **properties: Any) -> Path:
        """Write the pipeline with `properties` of the source and `more` at the top level."""
        source = {"path": str(self.journal), **properties}
        document = {
            "name": "sky",
            "offsetBasePath": str(self.folder / "state"),
            "stages": [
                {"name": "in", "plugin": {"name": "journal", "type": "cdcSource", "properties": source}},
                {
                    "name": "out",
                    "plugin": {
                        "name": "ledger",
                        "type": "cdcTarget",
                        "properties": {"path": str(self.folder / "ledger")},
                    },
                },
            ],
            "connections": [{"from": "in", "to": "out"}],
            "retries": {"maxDurationSeconds": 20, "delaySeconds": 0.2},
            "batch": {"maxIntervalSeconds": 0.1},
            **(more or {}),
        }
        self.pipeline.write_text(json.dumps(document), "utf-8")
        return self.pipeline

    def append(self, *transactions: list[Any]) -> None:
        with self.journal.open("a", encoding="utf-8") as journal:
            for transaction in transactions:
                journal.write(json.dumps(transaction) + "\n")

    def stars(self) -> dict[int, str]:
        """What the ledger holds: id → name."""
        file = self.folder / "ledger" / "stars.json"
        rows = json.loads(file.read_text("utf-8")) if file.exists() else {}
        return {row["id"]: row["name"] for row in rows.values()}

    def environment(self) -> dict[str, str]:
        paths = [str(self.site), os.environ.get("PYTHONPATH", "")]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in paths if p), "COLUMNS": "200"}

    def command(self, *arguments: object) -> list[str]:
        return [str(Path(sys.executable).parent / "replicator"), *map(str, arguments)]

    def replicator(self, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the command to its end."""
        return subprocess.run(
            self.command(*arguments),
            env=self.environment() | environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    @contextmanager
    def started(self, *arguments: object) -> Iterator[subprocess.Popen[str]]:
        """The command running; killed when left alone."""
        process = subprocess.Popen(
            self.command(*arguments),
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
