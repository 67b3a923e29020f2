"""Copies of the folder of a replicator into the target `file`, made between two runs."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace

from tests.end_to_end.replicator import COMMAND, Replicator


def copied(replicator: Replicator, name: str, command: Sequence[str] = COMMAND) -> Replicator:
    """A replicator that goes on from what the other one has stored now, if anything, beside its folder; the source is the same.

    Args:
        replicator: The other one; no process may be running it.
        name: Of the new folder.
        command: What it is run with.
    """
    folder = replicator.folder.with_name(name)
    if replicator.folder.exists():
        shutil.copytree(replicator.folder, folder)
    return replace(replicator, folder=folder, target=("file", {"path": str(folder / "target")}), command=command)
