"""Runs a coroutine from a test, also in a process whose main thread has an event loop: Playwright's runs until the last page is closed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


def run(coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
    """What it returns, or raises; it runs in a thread of its own."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()
