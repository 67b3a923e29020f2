"""Prometheus and promtool, unpacked from Debian's package into the cache folder; they need nothing but the C library."""

from __future__ import annotations

from pathlib import Path

from tests.services.artifacts import cache_folder
from tests.services.debian import packages

_PACKAGE = packages.Packages("prometheus", "bookworm", alone=True)
_NOT_RUN = ("usr/share", "etc", "lib", "var")


def program(name: str) -> Path:
    """The file of the program, `prometheus` or `promtool`, fetched at the first call on this machine.

    Raises:
        ServerError: this machine has no apt, or the package cannot be had.
    """
    folder = packages.unpacked(_PACKAGE, cache_folder() / "prometheus" / "prometheus-2", unused=_NOT_RUN)
    return folder / "usr/bin" / name


if __name__ == "__main__":
    print(f"  Prometheus: {program('prometheus').parents[2]}", flush=True)  # noqa: T201  # a setup step
