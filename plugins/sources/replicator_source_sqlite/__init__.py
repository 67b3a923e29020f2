"""Source plugin: SQLite, through triggers into a changelog table."""

from __future__ import annotations
