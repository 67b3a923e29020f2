"""The manifests of the archive: one after another, each names the files that were added, and what is in them."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import structlog

from replicator_runtime.engine.archive.names import day_of
from replicator_runtime.stored_forms import ARCHIVE, head, parsed
from replicator_sdk import Position, TableId
from replicator_sdk.authoring.stored_form import check_form, release
from replicator_sdk.change_archive.names import FORM, MANIFESTS, OWNER, manifest_of, numbers_of
from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from replicator_runtime.engine.run_state.run import Run
    from replicator_state import ArchiveFolder

register("engine.archive.listed")
log = structlog.get_logger()


class Manifests:
    """Reads and writes manifests, and knows how far the archive has each table. Used under its owner's lock.

    A file is in the archive once a manifest names it. Manifests are numbered without gaps but for old ones that were deleted, and are
    never changed; of two runs that write one number the second fails.

    Args:
        run: Whose archive it is.
        folder: The archive.

    Attributes:
        ends: Where the archive has each table; what follows is staged, or comes.
        number: Of the next manifest.
    """

    def __init__(self, run: Run, folder: ArchiveFolder) -> None:
        self._run = run
        self._folder = folder
        self._owned = False
        self.ends: dict[TableId, Position] = {}
        self.number = 1

    def load(self) -> None:
        """Read what is stored, and the manifests that were written after that.

        Raises:
            NeedsUserError: RPL-1251 when the archive is another pipeline's; RPL-7161 when a later release wrote it; RPL-1253 when one
                is damaged that is not the last.
            ReplicatorError: As archive or state fail.
        """
        self._own()
        content = self._run.store.get(ARCHIVE)
        stored = parsed(ARCHIVE, content) if content else {}
        self.ends, self.number = {}, 1
        if stored.get("place") == self._folder.place:
            self.number = stored["number"]
            self._learn(stored["ends"])
        else:
            self.number = max(self._numbers(), default=0) + 1
            self.save()  # so that manifests from here on are found again, also by a run that follows a kill
        while (manifest := self._read_next()) is not None:
            if manifest["generation"] == self._run.generation:
                self._learn(manifest["ends"])
            self.number += 1

    def _read_next(self) -> dict[str, Any] | None:
        """The manifest after those that are known. One that a killed run left half written named nothing: an empty one takes its place."""
        try:
            return self.read(self.number)
        except NeedsUserError as damaged:
            if damaged.code != "RPL-1253" or self.number < max(self._numbers()):
                raise
        log.warning("archive.half_manifest", number=self.number)
        self._run.lease.check()
        content = json.dumps(self._manifest([], {})).encode()
        self._folder.replace(manifest_of(self.number), content)
        return self.read(self.number)

    def read(self, number: int) -> dict[str, Any] | None:
        """The manifest of that number; None where there is none.

        Raises:
            NeedsUserError: RPL-7161 when a later release wrote it, RPL-1253 when it is damaged.
        """
        try:
            manifest: dict[str, Any] = json.loads(self._folder.read(manifest_of(number)))
        except FileNotFoundError:
            return None
        except ValueError:
            raise _damaged(self._folder, manifest_of(number)) from None
        check_form(f"the archive's manifest {number}", manifest["version"], FORM, manifest["release"])
        return manifest

    def write(self, entries: Sequence[Mapping[str, Any]], ends: Mapping[TableId, Position | None]) -> None:
        """Add entries, durable when this returns.

        Args:
            entries: What was added, in order.
            ends: Where the archive has their tables now; None for a table that it has no more.

        Raises:
            FencedError: When a newer run took over.
            RetryableError: RPL-1252 when another run has added something.
            ReplicatorError: As archive or state fail.
        """
        manifest = self._manifest(entries, ends)
        self._run.lease.check()
        try:
            self._folder.create(manifest_of(self.number), json.dumps(manifest).encode())
        except FileExistsError:
            raise RetryableError(
                f"another run has written manifest {self.number} of the archive at {self._folder.place}",
                code="RPL-1252",
                hint="nothing to do: the archive is read again; if it comes again and again, see that one pipeline writes this archive",
            ) from None
        failpoint("engine.archive.listed")
        self.number += 1
        self._learn(manifest["ends"])
        self.save()

    def _manifest(
        self, entries: Sequence[Mapping[str, Any]], ends: Mapping[TableId, Position | None]
    ) -> dict[str, Any]:
        """The next manifest. Readers take from it when another one comes at the latest while there are changes, and for how long it is there."""
        config = self._run.config.archive
        assert config is not None
        return {
            "version": FORM,
            "release": release(),
            "number": self.number,
            "generation": self._run.generation,
            "epoch": self._run.epoch,
            "at": time.time(),
            "flushSeconds": config.flush_seconds,
            "keepDays": config.keep_days,
            "entries": list(entries),
            "ends": _stored(ends),
        }

    def save(self) -> None:
        """Store how far the archive is; durable when this returns."""
        value = {"place": self._folder.place, "number": self.number, "ends": _stored(self.ends)}
        self._run.store.put(ARCHIVE, json.dumps({**head(ARCHIVE), **value}).encode())

    def prune(self, keep_days: float) -> int:
        """Delete manifests that are older, with their files; how many. The newest one stays.

        Raises:
            ReplicatorError: As the archive fails.
        """
        before, removed = time.time() - keep_days * 86_400, 0
        for number in self._numbers()[:-1]:
            manifest = self.read(number)
            if manifest is None or manifest["at"] >= before:
                break
            self._run.lease.check()
            files = [
                file for entry in manifest["entries"] for file in (*entry.get("files", ()), *entry.get("notes", ()))
            ]
            for file in files:
                self._folder.remove(file)
            for day in {day for file in files if (day := day_of(file)) is not None}:
                self._folder.remove_empty(day)
            self._folder.remove(manifest_of(number))
            removed += 1
        return removed

    def names_copy(self, copy: str, since: int) -> bool:
        """Whether the manifest `since`, or one after it, names the files of a copy.

        Raises:
            ReplicatorError: As the archive fails.
        """
        for number in range(since, self.number):
            manifest = self.read(number)
            if any(entry.get("copy") == copy for entry in (manifest or {"entries": ()})["entries"]):
                return True
        return False

    def _numbers(self) -> list[int]:
        """The numbers of all manifests, in order."""
        return numbers_of(self._folder.names(MANIFESTS))

    def _own(self) -> None:
        if self._owned:
            return
        config = self._run.config
        content = json.dumps({"version": FORM, "namespace": config.namespace, "name": config.name}).encode()
        try:
            self._folder.create(OWNER, content)
        except FileExistsError:
            self._check_owner(content)
        self._owned = True

    def _check_owner(self, own: bytes) -> None:
        """Check that the archive is this pipeline's, or was left by a first run of it that was killed while it wrote that."""
        content = self._folder.read(OWNER)
        try:
            found = json.loads(content)
        except ValueError:
            if not own.startswith(content) or self._numbers():
                raise _damaged(self._folder, OWNER) from None
            self._folder.replace(OWNER, own)
            return
        raise NeedsUserError(
            f"the archive at {self._folder.place} is that of the pipeline {found['namespace']}/{found['name']}",
            code="RPL-1251",
            hint="set `archive.path` to a folder of this pipeline's own",
        )

    def _learn(self, ends: Sequence[Mapping[str, Any]]) -> None:
        for item in ends:
            table = TableId.from_json(item["table"])
            if item["end"] is None:
                self.ends.pop(table, None)
            else:
                self.ends[table] = Position.from_json(item["end"], self._run.read_offset)


def _damaged(folder: ArchiveFolder, name: str) -> NeedsUserError:
    return NeedsUserError(
        f"the file {name} of the archive at {folder.place} is damaged",
        code="RPL-1253",
        hint="put it back from a backup, or set `archive.path` to a new folder and have every table copied again: `replicator reset PIPELINE`",
    )


def _stored(ends: Mapping[TableId, Position | None]) -> list[dict[str, Any]]:
    return [{"table": table.to_json(), "end": end and end.to_json()} for table, end in ends.items()]
