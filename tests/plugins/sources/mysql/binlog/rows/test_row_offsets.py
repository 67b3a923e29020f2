from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator_source_mysql.binlog.rows.cells import read_cells
from replicator_source_mysql.binlog.rows.row_layout import ImageShape
from replicator_source_mysql.binlog.rows.row_offsets import WalkError, find_images
from replicator_source_mysql.binlog.rows.storage_types import StorageType

Row = list[bytes | None]
PREFIXES = (1, 2, 3, 4)


@dataclass
class Lanes:
    """Rows of several events: for each lane its rows, each one image per side."""

    shapes: list[ImageShape]
    rows: list[list[list[Row]]]

    def encoded(self) -> tuple[bytes, list[int], list[int]]:
        data, start, end = b"head", [], []
        for lane in self.rows:
            start.append(len(data))
            for row in lane:
                for shape, image in zip(self.shapes, row, strict=True):
                    data += encode(shape, image)
            end.append(len(data))
            data += b"\xff" * 5
        return data, start, end


def encode(shape: ImageShape, image: Row) -> bytes:
    bits = sum(1 << rank for rank, value in enumerate(image) if value is None)
    raw = bits.to_bytes(shape.null_bytes, "little")
    for form, value in zip(shape.physical, image, strict=True):
        if value is not None:
            raw += (len(value).to_bytes(form.prefix, "little") if form.prefix else b"") + value
    return raw


forms = st.one_of(
    st.integers(1, 8).map(lambda width: StorageType(width, 0)),
    st.sampled_from(PREFIXES).map(lambda p: StorageType(0, p)),
)


@st.composite
def lanes(draw: st.DrawFn) -> Lanes:
    shapes = [
        ImageShape(tuple(range(10, 10 + len(columns))), tuple(columns))
        for columns in draw(st.lists(st.lists(forms, min_size=1, max_size=11), min_size=1, max_size=2))
    ]
    few = draw(st.booleans())
    counts = draw(st.lists(st.integers(0, 6), min_size=1, max_size=4 if few else 40))
    null_share = draw(st.sampled_from([0, 0, 3, 1]))
    random = draw(st.randoms(use_true_random=False))

    def value(form: StorageType) -> bytes | None:
        if null_share and random.randrange(4) < null_share:
            return None
        length = form.width if not form.prefix else random.choice([0, 1, 5, 200, 255 if form.prefix == 1 else 300])
        return random.randbytes(length)

    rows = [[[[value(f) for f in shape.physical] for shape in shapes] for _ in range(count)] for count in counts]
    return Lanes(shapes, rows)


def arrays(made: Lanes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    data, start, end = made.encoded()
    return np.frombuffer(data, np.uint8), np.array(start, np.int64), np.array(end, np.int64)


@given(lanes())
def test_every_value_of_every_row_is_found_where_it_was_written(made: Lanes) -> None:
    data, start, end = arrays(made)
    sides, counts = find_images(data, start, end, made.shapes)
    assert counts.tolist() == [len(lane) for lane in made.rows]
    flat = [row for lane in made.rows for row in lane]
    for side, (shape, at) in enumerate(zip(made.shapes, sides, strict=True)):
        cells = read_cells(data, at, shape, set(shape.columns))
        for rank, column in enumerate(shape.columns):
            cell = cells[column]
            present = np.ones(len(flat), bool) if cell.present is None else cell.present
            found = [
                data[s : s + n].tobytes() if p else None
                for s, n, p in zip(cell.start.tolist(), cell.length.tolist(), present.tolist(), strict=True)
            ]
            assert found == [row[side][rank] for row in flat]


@given(lanes(), st.integers(1, 4), st.booleans())
def test_a_lane_whose_rows_do_not_end_where_it_ends_is_an_error(made: Lanes, by: int, longer: bool) -> None:
    """Cutting a row, or leaving bytes after the last, never yields rows: unless the leftover happens to be whole rows."""
    data, start, end = arrays(made)
    end[-1] += by if longer else -by
    try:
        _, counts = find_images(data, start, end, made.shapes)
    except WalkError:
        return
    assert all(counts[:-1] == [len(lane) for lane in made.rows[:-1]])
    assert int(counts[-1]) != len(made.rows[-1])


@pytest.mark.parametrize("lanes_count", [1, 3, 50])
def test_fixed_rows_of_one_null_pattern_need_no_walk_and_come_out_the_same(lanes_count: int) -> None:
    shape = ImageShape((0, 1), (StorageType(4, 0), StorageType(8, 0)))
    image = struct.pack("<BIQ", 0, 1, 2)
    data = np.frombuffer(image * 100 * lanes_count, np.uint8)
    start = np.arange(lanes_count, dtype=np.int64) * 100 * len(image)
    (at,), counts = find_images(data, start, start + 100 * len(image), [shape])
    assert counts.tolist() == [100] * lanes_count
    assert at.tolist() == list(range(0, len(data), len(image)))


def test_images_without_columns_are_an_error() -> None:
    shape = ImageShape((), ())
    with pytest.raises(WalkError):
        find_images(np.zeros(4, np.uint8), np.array([0]), np.array([4]), [shape])
