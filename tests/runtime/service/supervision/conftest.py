"""Fixtures of supervised pipelines."""

from __future__ import annotations

from tests.runtime.service.supervision.supervised import pipelines, services

__all__ = ["pipelines", "services"]
