"""Target plugin: Delta Lake tables written by Spark."""

from __future__ import annotations
