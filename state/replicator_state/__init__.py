"""Offsets, state and leases of replicators, kept on any fsspec path."""

from __future__ import annotations
