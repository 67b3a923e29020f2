"""Offsets: a position between two transactions of the binlog, as file and position, with the GTIDs executed before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Self

from replicator_sdk.errors import HistoryLostError
from replicator_sdk.offset import Offset
from replicator_source_mysql.gtid import GtidProgress, GtidSet, parse_gtids

_FIELDS = {"file", "position", "gtid", "server", "resume", "proof"}


@dataclass(frozen=True, slots=True, eq=False)
class MySqlOffset(Offset):
    """File and position on one server, and what has been executed there until then.

    On one server offsets are compared by file number, then position. Between servers that share a history, as after a
    failover, by how many transactions their GTIDs name: all positions of both between the same two transactions are
    equal, so that a change of structure that a table has is recognised in another server's log.

    Attributes:
        file: Name of the binlog file, `mysql-bin.000003`.
        position: Where the next event begins in it.
        gtids: The executed GTIDs, empty where the server has none. Shared between offsets: copy before adding to them.
        server: Which server's file it is: MySQL's `server_uuid`, MariaDB's server id.
        resume: Where reading has to begin to find the rows of transactions that were prepared before this position and
            had not committed there (`file:position`); empty when there are none.
        proof: Identifies the file among others of its name, as `LogFingerprint` writes it; empty when it is not known.
    """

    file: str
    position: int
    gtids: GtidProgress = field(default_factory=GtidSet)
    server: str = ""
    resume: str = ""
    proof: str = ""

    def fields(self) -> Mapping[str, bytes]:
        """The parts as text."""
        return {
            "file": self.file.encode(),
            "position": str(self.position).encode(),
            "gtid": str(self.gtids).encode(),
            "server": self.server.encode(),
            "resume": self.resume.encode(),
            "proof": self.proof.encode(),
        }

    @classmethod
    def from_fields(cls, fields: Mapping[str, bytes]) -> Self:
        """The inverse of `fields`; offsets stored by versions before `proof` have none."""
        if set(fields) | {"proof"} != _FIELDS or not fields["position"].isdigit():
            raise HistoryLostError(
                "the stored offset is not a position in a binlog",
                code="RPL-3781",
                hint="point the pipeline back at the source it was started with",
            )
        file, position, gtid, server, resume, proof = (
            fields.get(name, b"").decode() for name in ("file", "position", "gtid", "server", "resume", "proof")
        )
        return cls(file, int(position), _stored(gtid), server, resume, proof)

    def to_json(self) -> list[Any]:
        """The form in the schema history."""
        return [self.file, self.position, str(self.gtids), self.server, self.resume, self.proof]

    @classmethod
    def from_json(cls, value: list[Any]) -> Self:
        """The inverse of `to_json`."""
        file, position, gtid, *rest = value
        return cls(file, position, _stored(gtid), *rest)

    @property
    def reading_from(self) -> MySqlOffset:
        """The position on the same server where reading has to begin: this one, or an earlier one (`resume`).

        It keeps the GTIDs of this one, so that it is after all that was read of another server before a failover.
        """
        if not self.resume:
            return self
        file, _, position = self.resume.rpartition(":")
        return MySqlOffset(file, int(position), self.gtids, self.server)

    @property
    def file_number(self) -> int:
        """The number the file's name ends with."""
        digits = self.file.rpartition(".")[2]
        return int(digits) if digits.isdigit() else 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MySqlOffset):
            return NotImplemented
        if self.server == other.server:
            return (self.file_number, self.position) == (other.file_number, other.position)
        return bool(self.gtids and other.gtids) and self.gtids.count == other.gtids.count

    def __hash__(self) -> int:
        return hash(MySqlOffset)  # equal positions of two servers have nothing else in common that is cheap

    def __lt__(self, other: Any) -> bool:
        if not isinstance(other, MySqlOffset):
            return NotImplemented
        if self.server == other.server:
            return (self.file_number, self.position) < (other.file_number, other.position)
        return self.gtids.count < other.gtids.count

    def __str__(self) -> str:
        return f"{self.file}:{self.position}"


@lru_cache(maxsize=1024)
def _stored(text: str) -> GtidProgress:
    """The GTIDs of a stored offset, parsed once for all offsets that have the same: those of a schema history do."""
    return parse_gtids(text)
