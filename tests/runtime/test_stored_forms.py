"""What a later release stored in a form that this one does not know is refused before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from replicator_runtime import stored_forms
from replicator_sdk.errors import NeedsUserError
from replicator_state import ReplicatorDirectory
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.test_run import Shop, fill

if TYPE_CHECKING:
    from pathlib import Path

KEYS = (
    stored_forms.TABLES,
    stored_forms.CHANGES,
    stored_forms.SLICES,
    stored_forms.POSITIONS,
    stored_forms.MAINTENANCE,
    stored_forms.LANES,
)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    in_memory_target.STORAGE = in_memory_target.TargetStorage()
    made = Shop(tmp_path)
    fill(made)
    made.run()
    return made


def store_later(shop: Shop, key: str, release: str = "9.1.0") -> None:
    """Store a value as a later release would."""
    directory = ReplicatorDirectory(str(shop.path.parent / "state"), "default", "shop")
    lease = directory.acquire("later")
    directory.states(lease).scoped("runtime").put(key, b'{"version": 99, "release": "%s"}' % release.encode())
    lease.release()


def everything(shop: Shop) -> dict[str, bytes]:
    """All files of the state."""
    folder = shop.path.parent / "state"
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("key", KEYS)
def test_a_value_of_a_later_release_ends_the_run_before_it_writes(shop: Shop, key: str) -> None:
    store_later(shop, key)
    before, tables = everything(shop), repr(in_memory_target.STORAGE.tables)
    shop.sql("INSERT INTO notes (text) VALUES ('more')")
    with pytest.raises(NeedsUserError, match=rf"RPL-7161.*{key} has form 99.*replicator==9\.1\.0"):
        shop.run()
    assert everything(shop) == before
    assert repr(in_memory_target.STORAGE.tables) == tables


@pytest.mark.parametrize("key", KEYS)
def test_what_this_release_stores_names_its_form_and_release(shop: Shop, key: str) -> None:
    head = stored_forms.head(key)
    assert head["release"]
    assert stored_forms.parsed(key, b'{"version": %d, "ends": []}' % head["version"])["version"] == head["version"]


def test_a_later_form_without_a_release_is_refused_as_well() -> None:
    with pytest.raises(NeedsUserError, match=r"RPL-7161.*the release of replicator that ran last"):
        stored_forms.parsed(stored_forms.SLICES, b'{"version": 2, "ends": []}')


def test_values_of_earlier_releases_are_read() -> None:
    assert stored_forms.parsed(stored_forms.SLICES, b'{"ends": [], "pending": []}') == {"ends": [], "pending": []}
