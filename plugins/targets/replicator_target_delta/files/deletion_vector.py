"""Deletion vectors as the Delta protocol lays them out: which rows of a data file are gone.

A vector is a 64-bit roaring bitmap of row indexes in its portable form after a magic number. Those of one commit are in
one file: a version byte, then for each a big-endian length, the bytes and their CRC-32.
"""

from __future__ import annotations

import base64
import struct
import uuid
import zlib
from typing import Any, Final

from pyroaring import BitMap64

from replicator_sdk.errors import BugError
from replicator_target_delta.files.storage import Storage

_MAGIC: Final = 1681511377
_VERSION: Final = b"\x01"
# Z85 is base85 with another alphabet.
_TO_Z85 = bytes.maketrans(
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~",
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#",
)
_FROM_Z85 = bytes.maketrans(
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#",
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~",
)


def read_deletion_vector(storage: Storage, descriptor: dict[str, Any] | None) -> BitMap64:
    """The rows a descriptor of the log says are gone; empty for None.

    Raises:
        BugError: When the file does not hold what the descriptor says.
    """
    if descriptor is None:
        return BitMap64()
    path = vector_file(descriptor)
    if path is None:
        inline = descriptor["pathOrInlineDv"].encode().translate(_FROM_Z85)
        return _decode(base64.b85decode(inline)[: descriptor["sizeInBytes"]])
    with storage.open_input(path) as file:
        file.seek(descriptor.get("offset") or 0)
        size: int = struct.unpack(">i", file.read(4))[0]
        data = file.read(size)
        checksum: int = struct.unpack(">I", file.read(4))[0]
    if size != descriptor["sizeInBytes"] or zlib.crc32(data) != checksum:
        raise BugError(
            f"the deletion vector in {path} is damaged", code="RPL-9400", hint="restore the file or the table"
        )
    return _decode(data)


def vector_file(descriptor: dict[str, Any] | None) -> str | None:
    """The file of a descriptor, relative to the table's folder or absolute; None when there is none."""
    if descriptor is None or descriptor["storageType"] == "i":
        return None
    where: str = descriptor["pathOrInlineDv"]
    return where if descriptor["storageType"] == "p" else _file_name(where)


def _decode(data: bytes) -> BitMap64:
    if struct.unpack("<i", data[:4])[0] != _MAGIC:
        raise BugError("a deletion vector has an unknown form", code="RPL-9401", hint="REORG TABLE … APPLY (PURGE)")
    return BitMap64.deserialize(data[4:])


def _file_name(where: str) -> str:
    """The file of a relative descriptor: an optional folder, then 20 characters of Z85."""
    unique = uuid.UUID(bytes=base64.b85decode(where[-20:].encode().translate(_FROM_Z85)))
    folder = f"{where[:-20]}/" if len(where) > 20 else ""
    return f"{folder}deletion_vector_{unique}.bin"


class DeletionVectorFile:
    """Gathers the deletion vectors of one commit; not shared between threads."""

    def __init__(self) -> None:
        self._id = uuid.uuid4()
        self._content = bytearray(_VERSION)

    def add(self, rows: BitMap64) -> dict[str, Any]:
        """Add one vector; returns its descriptor for an `add` action. Valid once `write` has returned."""
        data = struct.pack("<i", _MAGIC) + rows.serialize()
        offset = len(self._content)
        self._content += struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
        return {
            "storageType": "u",
            "pathOrInlineDv": base64.b85encode(self._id.bytes).translate(_TO_Z85).decode(),
            "offset": offset,
            "sizeInBytes": len(data),
            "cardinality": len(rows),
        }

    def write(self, storage: Storage) -> None:
        """Write the file, durable on return; nothing when it is empty."""
        if len(self._content) == len(_VERSION):
            return
        name = f"deletion_vector_{self._id}.bin"
        with storage.open_output(name) as file:
            file.write(bytes(self._content))
        storage.sync(name)
