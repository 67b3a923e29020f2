"""One replicator, one folder; names cannot leave it, and no other user can read it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from replicator_sdk.errors import ConfigError
from replicator_state import ReplicatorDirectory, check_identifier
from replicator_state.storage.local_folder import LocalFolder
from tests.state.stores import offset

HOSTILE = ["", ".", "..", "../x", "a/b", "/etc", "a\\b", "a\0b", "%2e%2e", "é", "a b", ".hidden", "-x", "x" * 64, "a\n"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_could_leave_its_folder_is_refused(name: str, tmp_path: Path) -> None:
    for arguments in ((name, "ok"), ("ok", name)):
        with pytest.raises(ConfigError, match="RPL-7101"):
            ReplicatorDirectory(str(tmp_path), *arguments)


@pytest.mark.parametrize("name", ["a", "Shop-1.eu_west", "x" * 63, "9"])
def test_ordinary_names_are_taken_as_they_are(name: str) -> None:
    assert check_identifier(name, "name") == name


def test_everything_is_in_base_namespace_name_generation(base: str) -> None:
    directory = ReplicatorDirectory(base, "sales", "shop")
    directory.offsets().save(offset(1))
    assert directory.place == f"{base}/sales/shop/1"
    assert directory.generations() == [1]


def test_the_newest_generation_is_taken_and_generations_do_not_see_each_other(base: str) -> None:
    for generation in (1, 2, 10):
        ReplicatorDirectory(base, "n", "shop", generation=generation).offsets().save(offset(generation))
    newest = ReplicatorDirectory(base, "n", "shop")
    assert newest.generation == 10
    assert [e.offset.sequence_number for e in newest.offsets().history() if e.offset] == [10]
    assert ReplicatorDirectory(base, "n", "other").generation == 1


def test_looking_makes_no_folder(tmp_path: Path) -> None:
    directory = ReplicatorDirectory(str(tmp_path / "new"), "n", "shop")
    assert directory.offsets().latest() is None
    assert directory.states().read_status() is None
    assert directory.generations() == []
    assert list(tmp_path.iterdir()) == []


def test_folders_and_files_are_for_this_user_only(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        directory = ReplicatorDirectory(str(tmp_path / "base"), "n", "shop")
        lease = directory.acquire("r1")
        directory.offsets(lease).save(offset(1))
        directory.states().put("k", b"v")
        directory.states().put_status({})
        lease.renew()
    finally:
        os.umask(umask)
    made = list((tmp_path / "base").rglob("*"))
    assert len(made) > 6
    for path in made:
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


def test_a_symbolic_link_in_place_of_a_file_is_not_followed(local: LocalFolder, tmp_path: Path) -> None:
    local.create("state-a", b"x")
    outside = tmp_path / "outside"
    outside.write_bytes(b"outside")
    (local.path / "state-b").symlink_to(outside)
    with pytest.raises(OSError, match="ymbolic"):
        local.read("state-b")
    local.replace("state-b", b"mine")
    assert outside.read_bytes() == b"outside"


def test_credentials_in_a_url_are_shown_nowhere() -> None:
    with pytest.raises(ConfigError, match="RPL-7102") as caught:
        ReplicatorDirectory("nosuch://key:s3cret@bucket/x?token=s3cret", "n", "shop")
    assert "s3cret" not in str(caught.value)
    directory = ReplicatorDirectory("memory://key:s3cret@bucket/x", "n", "shop")
    assert directory.place == "memory://bucket/x/n/shop/1"


def test_a_url_whose_package_is_missing_names_the_package_to_install() -> None:
    with pytest.raises(ConfigError, match=r"RPL-7102.*pip install"):
        ReplicatorDirectory("oci://bucket@namespace/x", "n", "shop")


def test_a_url_of_azure_without_its_account_names_the_option_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("adlfs").AzureBlobFileSystem.clear_instance_cache()  # of other tests, with their variables
    for name in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_CONNECTION_STRING"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match=r"RPL-7102.*AZURE_STORAGE_ACCOUNT_NAME"):
        ReplicatorDirectory("abfs://container/x", "n", "shop")


def test_a_file_url_is_a_local_folder_with_local_promises(tmp_path: Path) -> None:
    directory = ReplicatorDirectory(f"file://{tmp_path}", "n", "shop")
    assert isinstance(directory._generation_folder(), LocalFolder)
    directory.states().put_status({"a": 1})
    assert (tmp_path / "n/shop/1/state.json").exists()


def test_rows_of_former_generations_alone_are_deleted(base: str) -> None:
    for generation in (1, 2, 3):
        directory = ReplicatorDirectory(base, "n", "shop", generation=generation)
        directory.offsets().save(offset(generation))
        lease = directory.acquire("r")
        directory.lanes(lease).create("lane", b"rows")
        directory.dead_letters(lease).create("letter", b"rows")
        lease.release()
    newest = ReplicatorDirectory(base, "n", "shop", generation=2)
    lease = newest.acquire("r")
    for _ in range(2):
        newest.delete_former_rows(lease)
    kept = {g: ReplicatorDirectory(base, "n", "shop", generation=g) for g in (1, 2, 3)}
    assert {g: found.dead_letters().names() for g, found in kept.items()} == {1: [], 2: ["letter"], 3: ["letter"]}
    assert newest.lanes(lease).names() == ["lane"]
    assert all(found.offsets().latest() is not None for found in kept.values())
    lease.release()


def test_former_generations_are_known_back_to_where_the_state_was_lost(base: str) -> None:
    def begin(*, lost: bool = False) -> ReplicatorDirectory:
        directory = ReplicatorDirectory(base, "n", "shop")
        lease = directory.acquire("r")
        directory.begin_generation(lease, state_was_lost=lost)
        lease.release()
        return ReplicatorDirectory(base, "n", "shop")

    found = []
    for lost in (False, False, True, True, False):
        newest = begin(lost=lost)
        former, was_lost = newest.former()
        found.append(([newest.generation - one.generation for one in former], was_lost))
    assert found == [([1], False), ([1, 2], False), ([], True), ([], True), ([1], True)]


def test_the_first_bytes_of_a_file_are_read_alone(base: str) -> None:
    directory = ReplicatorDirectory(base, "n", "shop")
    lease = directory.acquire("r")
    letters = directory.dead_letters(lease)
    letters.create("letter", b"head and rows")
    assert letters.read_start("letter", 4) == b"head"
    assert letters.read_start("letter", 1000) == b"head and rows"
    with pytest.raises(FileNotFoundError):
        letters.read_start("none", 4)
    lease.release()
