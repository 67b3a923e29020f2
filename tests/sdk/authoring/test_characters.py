"""Matrices of characters hold the text of columns."""

from __future__ import annotations

import uuid

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator_sdk.authoring.characters import matrix_rows, uuid_text, write_digits


@given(
    st.lists(
        st.tuples(st.binary(min_size=3, max_size=3), st.lists(st.booleans(), min_size=3, max_size=3), st.booleans())
    )
)
def test_rows_of_a_matrix_become_values(rows: list[tuple[bytes, list[bool], bool]]) -> None:
    matrix = np.frombuffer(b"".join(row for row, _, _ in rows), np.uint8).reshape(-1, 3)
    keep = np.array([kept for _, kept, _ in rows], np.bool_).reshape(-1, 3)
    present = np.array([here for _, _, here in rows], np.bool_)
    whole = [row if here else None for row, _, here in rows]
    cut = [bytes(byte for byte, kept in zip(row, keeps, strict=True) if kept) for row, keeps, _ in rows]
    seen = [row if here else None for row, here in zip(cut, present, strict=True)]
    for made, expected in [
        (matrix_rows(pa.binary(), matrix), [row for row, _, _ in rows]),
        (matrix_rows(pa.binary(), matrix, present=present), whole),
        (matrix_rows(pa.binary(), matrix, keep=keep), cut),
        (matrix_rows(pa.binary(), matrix, keep=keep, present=present), seen),
    ]:
        made.validate(full=True)
        assert made.equals(pa.array(expected, pa.binary()))


def test_numbers_are_written_with_zeros_before_them() -> None:
    matrix = np.full((3, 6), ord("-"), np.uint8)
    write_digits(matrix, 1, 4, np.array([7, 1234, 56789]))
    assert matrix_rows(pa.string(), matrix).to_pylist() == ["-0007-", "-1234-", "-6789-"]


@pytest.mark.parametrize("missing", [False, True])
@given(st.lists(st.uuids(), max_size=5))
def test_uuids_have_the_form_that_python_prints(missing: bool, values: list[uuid.UUID]) -> None:
    octets = np.frombuffer(b"".join(value.bytes for value in values), np.uint8).reshape(-1, 16)
    present = np.arange(len(values)) % 2 == 0 if missing else None
    expected = [str(value) if present is None or present[rank] else None for rank, value in enumerate(values)]
    assert uuid_text(octets, present).equals(pa.array(expected, pa.string()))
