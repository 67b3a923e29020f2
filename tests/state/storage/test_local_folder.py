"""A value's version before is kept by a link: nothing is written and synced again that is durable."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from replicator_state import StateStore
from replicator_state.storage import local_folder
from tests.state.test_state_store import AT_ONCE

if TYPE_CHECKING:
    from pathlib import Path

    from replicator_state.storage.local_folder import LocalFolder


def test_a_put_writes_the_new_value_only(local: LocalFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    store, written = StateStore(local, AT_ONCE), list[bytes]()
    store.put("k", b"one")
    true_write = local_folder._write

    def write(path: Path, content: bytes) -> None:
        written.append(content)
        true_write(path, content)

    monkeypatch.setattr(local_folder, "_write", write)
    for value in (b"two", b"three"):
        store.put("k", value)
    assert [b"two" in content or b"three" in content for content in written] == [True, True]
    (local.path / "state-k").write_bytes(b"junk")
    assert store.get("k") == b"two"


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_is_kept_stays_as_it_was_when_its_name_is_replaced(
    local: LocalFolder, monkeypatch: pytest.MonkeyPatch, *, links: bool
) -> None:
    """Also on a file system without links, and once more after a process died before it replaced the name."""

    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    if not links:
        monkeypatch.setattr(os, "link", refused)
    local.replace("a", b"1")
    local.keep("a", "b", b"1")
    local.keep("a", "b", b"1")
    assert sorted(local.names()) == ["a", "b"]
    local.replace("a", b"2")
    assert (local.read("a"), local.read("b")) == (b"2", b"1")
    local.keep("a", "b", b"2")
    local.replace("a", b"3")
    assert (local.read("a"), local.read("b")) == (b"3", b"2")
    assert sorted(local.names()) == ["a", "b"]


def test_a_value_that_another_program_damaged_is_found_though_the_run_remembers_what_it_wrote(
    local: LocalFolder,
) -> None:
    store = StateStore(local, AT_ONCE)
    for value in (b"one", b"two"):
        store.put("k", value)
    whole = (local.path / "state-k").read_bytes()
    for place in range(len(whole)):
        (local.path / "state-k").write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(local, "replace", lambda *_: None)
            store.put("k", b"three")
        (local.path / "state-k").write_bytes(b"junk")
        assert store.get("k") == b"one"


def test_a_link_whose_answer_was_lost_is_ones_own(local: LocalFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS repeats a request whose answer it did not get, and says then that the name exists."""
    true = os.link
    local.replace("a", b"1")

    def link(source: Path, link: Path, *, follow_symlinks: bool) -> None:
        true(source, link, follow_symlinks=follow_symlinks)
        raise FileExistsError(errno.EEXIST, "File exists")

    monkeypatch.setattr(os, "link", link)
    local.keep("a", "b", b"1")
    assert local.read("b") == b"1"
    assert sorted(local.names()) == ["a", "b"]
