"""Source plugin: PostgreSQL 13 to 18, through logical replication."""

from __future__ import annotations
