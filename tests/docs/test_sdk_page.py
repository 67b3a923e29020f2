"""The page about the SDK shows code that runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "sdk.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_every_example_runs_and_its_assertions_hold(block: str) -> None:
    assert "assert " in block
    exec(compile(block, "docs/sdk.md", "exec"), {})
