"""Modules of the tests as installed plugins."""

from __future__ import annotations

import os
from pathlib import Path


def install_plugin(folder: Path, name: str, module: str) -> str:
    """Make a module an installed plugin below `folder`; returns the PYTHONPATH of processes that are to find it."""
    info = folder / f"{name}_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[replicator.plugins]\n{name} = {module}\n")
    return os.pathsep.join([str(folder), str(Path(__file__).parents[2])])
