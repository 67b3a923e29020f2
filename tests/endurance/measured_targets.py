"""What is measured at a target: its commits, and what it keeps beside the rows."""

from __future__ import annotations

import json
import os
import time
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.services.bigquery.emulators import BUCKET, PROJECT, Emulators
from tests.services.processes import LOOPBACK
from tests.soak.targets import Target

_YOUNG_SECONDS = 60.0
_OLDER_SECONDS = 9 * 86400.0


class MeasuredTarget(ABC):
    """A target of one replicator.

    Attributes:
        target: Its tables.
    """

    target: Target

    @abstractmethod
    def new_commits(self) -> int:
        """Commits of all tables together since it was asked last."""

    @abstractmethod
    def files(self) -> int:
        """How much the target keeps: files of tables, or staged objects and tables."""

    def make_old(self) -> None:  # most targets keep nothing by its age
        """Make what is not from the last minute days older, as it would be in a week."""


@dataclass
class Lake(MeasuredTarget):
    """Delta tables below a folder."""

    target: Target
    folder: Path
    _versions: Mapping[Path, int] = field(default_factory=dict)

    def new_commits(self) -> int:
        """By the versions of the tables' logs; what a table had that was dropped since is not counted, and a new one begins at 0."""
        before, self._versions = self._versions, self._newest()
        again = [log for log, version in self._versions.items() if version < before.get(log, -1)]
        return sum(version - (-1 if log in again else before.get(log, -1)) for log, version in self._versions.items())

    def files(self) -> int:
        """Of data and of logs."""
        return sum(1 for path in self.folder.rglob("*") if path.is_file())

    def make_old(self) -> None:
        """By the files' times."""
        now = time.time()
        for path in self.folder.rglob("*"):
            age = now - path.stat().st_mtime
            if path.is_file() and _YOUNG_SECONDS < age < _OLDER_SECONDS:
                os.utime(path, (now - _OLDER_SECONDS, now - _OLDER_SECONDS - age))

    def _newest(self) -> Mapping[Path, int]:
        return {
            log: max((int(path.name[:20]) for path in log.glob("*.json") if path.name[:20].isdigit()), default=-1)
            for log in self.folder.rglob("_delta_log")
        }


@dataclass
class Warehouse(MeasuredTarget):
    """Tables of the BigQuery emulator, which nothing else uses meanwhile."""

    target: Target
    emulators: Emulators

    def new_commits(self) -> int:
        """By the MERGE statements that were asked for."""
        jobs = list(self.emulators.gate.jobs)
        self.emulators.gate.clear()
        return sum("MERGE" in job.sql for job in jobs)

    def files(self) -> int:
        """Objects in the bucket, and tables of all datasets."""
        project = f"http://{LOOPBACK}:{self.emulators.bigquery_port}/bigquery/v2/projects/{PROJECT}/datasets"
        datasets = [one["datasetReference"]["datasetId"] for one in _get(project).get("datasets", [])]
        with self.emulators.gate.turn:
            tables = sum(len(_get(f"{project}/{name}/tables?maxResults=1000").get("tables", [])) for name in datasets)
        objects = _get(f"{self.emulators.storage_endpoint}/storage/v1/b/{BUCKET}/o").get("items", [])
        return tables + len(objects)


def _get(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url, timeout=60) as answer:
        found: dict[str, Any] = json.load(answer)
    return found
