"""A file that cannot be written ends the run with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from replicator_sdk.errors import NeedsUserError
from replicator_target_delta.files.storage import Storage


@pytest.mark.parametrize("below", ["", "/main/orders"])
def test_a_file_in_the_place_of_a_folder_needs_the_user(tmp_path: Path, below: str) -> None:
    (tmp_path / "lake").write_text("")
    refused = pytest.raises(NeedsUserError, match=r"RPL-3403: the target cannot write .*choose another `path`")
    with refused, Storage(f"{tmp_path}/lake{below}").open_output("part.parquet"):
        pass


def test_a_folder_that_is_not_there_is_made(tmp_path: Path) -> None:
    with Storage(f"{tmp_path}/lake/main").open_output("part.parquet") as file:
        file.write(b"rows")
    assert (tmp_path / "lake/main/part.parquet").read_bytes() == b"rows"
