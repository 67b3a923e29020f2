"""A log of any history adds up to what a dictionary of its actions holds, with and without checkpoints."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator_target_delta.file_index import actions
from replicator_target_delta.file_index.actions import VECTOR
from replicator_target_delta.files.storage import Storage
from replicator_target_delta.log import log_replay
from replicator_target_delta.log.log_replay import replay
from tests.plugins.targets.delta.file_index.actions import data_file, vector

Model = dict[str, dict[str, Any]]
DOMAIN = pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())])


class Log:
    """The files of a log, and what they add up to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "_delta_log"
        self.folder.mkdir()
        self.root = str(folder)
        self.files: Model = {}
        self.domain: str | None = None
        self.checkpoints: list[str] = []
        self.commits: list[str] = []
        self.version = -1

    def commit(self, actions: list[dict[str, Any]]) -> None:
        self.version += 1
        path = self.folder / f"{self.version:020}.json"
        path.write_text("\n".join(json.dumps(action) for action in actions))
        self.commits.append(str(path))

    def checkpoint(self) -> None:
        """As Spark writes it: one row for each action, maps and structs in columns, tombstones among them."""
        columns = actions.to_columns(list(self.files.values()))
        add = pa.StructArray.from_arrays(columns.columns, names=columns.schema.names)
        domains = [{"domain": "d", "configuration": self.domain, "removed": False}] if self.domain else []
        path = self.folder / f"{self.version:020}.checkpoint.parquet"
        nothing = pa.nulls(1, add.type)
        rows = {
            "add": pa.concat_arrays([nothing, add, nothing, pa.nulls(len(domains), add.type)]),
            "domainMetadata": pa.concat_arrays([pa.nulls(len(add) + 2, DOMAIN), pa.array(domains, DOMAIN)]),
        }
        pq.write_table(pa.table(rows), path, row_group_size=7)
        self.checkpoints, self.commits = [str(path)], []

    def assert_replayed(self) -> None:
        found = replay(Storage(self.root), self.checkpoints, self.commits)
        assert found is not None
        assert {file.path: file.add for file in found.files.all_actions()} == self.files
        assert found.domains == ({"d": self.domain} if self.domain else {})


def _removed(add: dict[str, Any]) -> dict[str, Any]:
    return {"remove": {k: add[k] for k in ("path", "deletionVector") if k in add}}


def _change(log: Log, data: st.DataObject) -> None:
    """A commit: files come, go, get a deletion vector or another entry of the same name; in any order."""
    number = log.version + 1
    written: list[dict[str, Any]] = []
    chosen = data.draw(st.lists(st.sampled_from(sorted(log.files)), unique=True, max_size=4)) if log.files else []
    for path in chosen:
        what = data.draw(st.sampled_from(["goes", "gets a vector", "is described again"]))
        add = log.files.pop(path)
        if what != "is described again":
            written.append(_removed(add))
        if what != "goes":
            more = {"deletionVector": vector(number)} if what == "gets a vector" else {"tags": {"n": str(number)}}
            log.files[path] = {**add, **more}
            written.append({"add": log.files[path]})
    for index in range(data.draw(st.integers(0, 4))):
        file = data_file(f"{number}-{index}", size=index, baseRowId=number)
        log.files[file.path] = file.add
        written.append({"add": file.add})
    if data.draw(st.booleans()):
        log.domain = data.draw(st.none() | st.text(max_size=3).map(lambda text: f"at {text}"))
        configuration = {"domain": "d", "configuration": log.domain or "", "removed": log.domain is None}
        written.append({"domainMetadata": configuration})
    log.commit(data.draw(st.permutations(written)))


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_files_and_domains_are_those_of_a_dictionary_after_any_history(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_replay, "_AT_ONCE", data.draw(st.sampled_from([1, 5, 4096])))
        log = Log(Path(folder))
        for _ in range(data.draw(st.integers(1, 10))):
            _change(log, data)
            if log.files and data.draw(st.integers(0, 3)) == 0:
                log.checkpoint()
        log.assert_replayed()


def test_a_file_that_is_removed_under_an_older_deletion_vector_stays(tmp_path: Path) -> None:
    """Two entries of one name are two files to the log: with, and without the vector."""
    log = Log(tmp_path)
    file = data_file("a", deletionVector=vector(2))
    log.files["a"] = file.add
    log.commit([{"add": file.add}])
    log.checkpoint()
    log.commit([_removed({**file.add, "deletionVector": vector(1)})])
    log.assert_replayed()


def test_a_checkpoint_whose_structs_have_other_fields_is_read_by_their_names(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.files["a"] = data_file(
        "a", deletionVector={"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 3}
    ).add
    log.commit([])
    log.checkpoint()
    [path] = log.checkpoints
    table = pq.read_table(path)
    add = table["add"].combine_chunks()
    inner = add.field("deletionVector")
    kept = [f for f in VECTOR if f.name != "offset"][::-1]
    changed = pa.StructArray.from_arrays([inner.field(f.name) for f in kept], fields=kept, mask=inner.is_null())
    names = [f.name for f in add.type if f.name not in {"deletionVector", "clusteringProvider"}]
    other = pa.StructArray.from_arrays(
        [*(add.field(n) for n in names), changed], names=[*names, "deletionVector"], mask=add.is_null()
    )
    pq.write_table(table.set_column(0, "add", other), path)
    log.assert_replayed()
