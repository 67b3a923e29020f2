"""Offsets: a place between two transactions of the binlog (seed 001's file and position, and the GTIDs behind it)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from replicator_sdk.errors import HistoryLostError
from replicator_sdk.offset import Offset
from replicator_source_mysql.gtid import count_gtids

_FIELDS = {"file", "position", "gtid", "server", "resume", "proof"}


@dataclass(frozen=True, slots=True, eq=False)
class MySqlOffset(Offset):
    """File and position on one server, and what has been executed there until that place.

    On one server offsets are compared by file number, then position (seed 001). Between servers that share a history,
    as after a failover, by how many transactions their GTIDs name: all places of both between the same two transactions
    are equal, so that a change of structure that a table has is known again in another server's log.

    Attributes:
        file: Name of the binlog file, `mysql-bin.000003`.
        position: Where the next event begins in it.
        gtid: The executed GTIDs in the server's notation; empty where the server has none.
        server: Which server's file it is: MySQL's `server_uuid`, MariaDB's server id.
        resume: Where reading has to begin to find the rows of transactions that were prepared before this place and
            had not committed there (`file:position`); empty when there are none.
        proof: What shows that a file of this name is the same one, as `LogProof` writes it; empty when it is not known.
    """

    file: str
    position: int
    gtid: str = ""
    server: str = ""
    resume: str = ""
    proof: str = ""

    def fields(self) -> Mapping[str, bytes]:
        """The parts as text."""
        return {
            "file": self.file.encode(),
            "position": str(self.position).encode(),
            "gtid": self.gtid.encode(),
            "server": self.server.encode(),
            "resume": self.resume.encode(),
            "proof": self.proof.encode(),
        }

    @classmethod
    def from_fields(cls, fields: Mapping[str, bytes]) -> Self:
        """The inverse of `fields`; offsets stored by versions before `proof` have none."""
        if set(fields) | {"proof"} != _FIELDS or not fields["position"].isdigit():
            raise HistoryLostError(
                "the stored offset is not a place in a binlog",
                code="RPL-3781",
                hint="point the pipeline back at the source it was started with",
            )
        file, position, gtid, server, resume, proof = (
            fields.get(name, b"").decode() for name in ("file", "position", "gtid", "server", "resume", "proof")
        )
        return cls(file, int(position), gtid, server, resume, proof)

    def to_json(self) -> list[Any]:
        """The form in the schema history."""
        return [self.file, self.position, self.gtid, self.server, self.resume, self.proof]

    @classmethod
    def from_json(cls, value: list[Any]) -> Self:
        """The inverse of `to_json`."""
        return cls(*value)

    @property
    def reading_from(self) -> MySqlOffset:
        """The place on the same server where reading has to begin: this one, or an earlier one (`resume`)."""
        if not self.resume:
            return self
        file, _, position = self.resume.rpartition(":")
        return MySqlOffset(file, int(position), "", self.server)

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
        return bool(self.gtid and other.gtid) and count_gtids(self.gtid) == count_gtids(other.gtid)

    def __hash__(self) -> int:
        return hash(MySqlOffset)  # equal places of two servers have nothing else in common that is cheap

    def __lt__(self, other: Any) -> bool:
        if not isinstance(other, MySqlOffset):
            return NotImplemented
        if self.server == other.server:
            return (self.file_number, self.position) < (other.file_number, other.position)
        return count_gtids(self.gtid) < count_gtids(other.gtid)

    def __str__(self) -> str:
        return f"{self.file}:{self.position}"
