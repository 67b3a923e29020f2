"""Which rows of a data file are gone: position delete files (format 2) and deletion vectors in Puffin files (format 3)."""

from __future__ import annotations

import json
import struct
import uuid
import zlib
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from replicator_target_iceberg.files.live_files import DeleteRef, LiveFile
from replicator_target_iceberg.files.storage import Storage, damaged, readable
from replicator_target_iceberg.schema.types import FIELD_ID

Int64s = npt.NDArray[np.int64]
_PATH_ID, _POSITION_ID, _ROW_ID = 2147483546, 2147483545, 2147483645
_POSITIONS: Final = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={FIELD_ID: str(_PATH_ID).encode()}),
        pa.field("pos", pa.int64(), nullable=False, metadata={FIELD_ID: str(_POSITION_ID).encode()}),
    ]
)
_MAGIC: Final = bytes.fromhex("d1d33964")
_PUFFIN: Final = b"PFA1"


def deleted_rows(storage: Storage, file: LiveFile) -> Int64s:
    """The indexes of the rows of `file` that are gone, ascending.

    Raises:
        NeedsUserError: RPL-3439 when what says so is damaged.
    """
    found = [
        _vector(storage, ref) if ref.format == "puffin" else _positions(storage, ref, file) for ref in file.deletes
    ]
    return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)


def _positions(storage: Storage, ref: DeleteRef, file: LiveFile) -> Int64s:
    with storage.open_input(ref.location) as source, readable(ref.location):
        rows = pq.read_table(source, columns=["file_path", "pos"])
    mine = rows.filter(pc.equal(rows.column("file_path"), file.location))
    places: Int64s = mine.column("pos").to_numpy()
    return places


def _vector(storage: Storage, ref: DeleteRef) -> Int64s:
    assert ref.offset is not None
    assert ref.length is not None
    with storage.open_input(ref.location) as source:
        source.seek(ref.offset)
        blob = bytes(source.read(ref.length))
    if len(blob) != ref.length:
        raise damaged(ref.location)
    size, content, checksum = struct.unpack(">I", blob[:4])[0], blob[4:-4], struct.unpack(">I", blob[-4:])[0]
    if size != len(content) or zlib.crc32(content) != checksum or content[:4] != _MAGIC:
        raise damaged(ref.location)
    return np.array(BitMap64.deserialize(content[4:]).to_array(), np.int64)


def write_position_deletes(storage: Storage, data_file: str, places: Int64s) -> DeleteRef:
    """One new file that names the rows `places` of one data file, and no others; durable on return."""
    rows = pa.Table.from_arrays([pa.repeat(pa.scalar(data_file), len(places)), pa.array(places)], schema=_POSITIONS)
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd", store_schema=False)
    location, size = storage.write(f"data/{uuid.uuid4()}-deletes.parquet", iter([sink.getvalue()]))
    return DeleteRef(location, "parquet", size, len(places), data_file)


def write_deletion_vectors(storage: Storage, gone: Mapping[str, Int64s]) -> dict[str, DeleteRef]:
    """One new Puffin file with a vector for each data file; durable on return. Returns what refers to each."""
    content = bytearray(_PUFFIN)
    blobs: list[dict[str, Any]] = []
    for data_file, places in gone.items():
        vector = _MAGIC + BitMap64(places.astype(np.uint64)).serialize()
        blob = struct.pack(">I", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))
        blobs.append(
            {
                "type": "deletion-vector-v1",
                "fields": [_ROW_ID],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": len(content),
                "length": len(blob),
                "properties": {"referenced-data-file": data_file, "cardinality": str(len(places))},
            }
        )
        content += blob
    footer = json.dumps({"blobs": blobs, "properties": {"created-by": "replicator"}}).encode()
    content += _PUFFIN + footer + struct.pack("<i", len(footer)) + bytes(4) + _PUFFIN
    location, size = storage.write(f"data/{uuid.uuid4()}-deletes.puffin", iter([bytes(content)]))
    return {
        blob["properties"]["referenced-data-file"]: DeleteRef(
            location,
            "puffin",
            size,
            int(blob["properties"]["cardinality"]),
            blob["properties"]["referenced-data-file"],
            blob["offset"],
            blob["length"],
        )
        for blob in blobs
    }
