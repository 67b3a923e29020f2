"""Converts Connect's decimals: two's complement, big-endian, with the scale in the schema or with the number."""

from __future__ import annotations

from decimal import Decimal as Number

import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.authoring.arrow_buffers import fixed_width, validity
from replicator_sdk.datatype import Decimal
from replicator_source_kafka.types.values.byte_arrays import from_base64, right_aligned


def decimals(raw: pa.Array, scale: int, kind: Decimal) -> pa.Array:
    """`kind` from the bytes (or base64) of unscaled numbers; decimals are cast.

    Raises:
        ValueError: When a value is not such a number, or has more digits than `kind`.
    """
    if pa.types.is_decimal(raw.type):
        return raw.cast(kind.arrow)
    values = from_base64(raw)
    numbers = right_aligned(values, 16, signed=True)[:, ::-1]
    present = validity(values)
    if scale == kind.scale:
        result = fixed_width(numbers, kind.arrow, present)
        result.validate(full=True)
        return result
    # A negative scale (Oracle's NUMBER(5,-2)): the digits are followed by zeros.
    digits = fixed_width(numbers, pa.decimal128(kind.precision + scale, 0), present)
    digits.validate(full=True)
    zeros = pa.scalar(Number(10) ** -scale, pa.decimal256(1 - scale, 0))
    return pc.multiply(digits.cast(pa.decimal256(digits.type.precision, 0)), zeros).cast(kind.arrow)


def decimal_texts(raw: pa.Array, scale: int) -> pa.StringArray:
    """Exact text of unscaled numbers of any size, without exponents. One Python call per value: such types are rare."""
    if pa.types.is_decimal(raw.type):
        return pa.array([None if v is None else format(v, "f") for v in raw.to_pylist()], pa.string())
    values = from_base64(raw)
    return pa.array([None if v is None else plain(v, scale) for v in values.to_pylist()], pa.string())


def variable_scale(raw: pa.StructArray) -> pa.StringArray:
    """Exact text of `io.debezium.data.VariableScaleDecimal`, a struct of scale and bytes."""
    scales, values = raw.field("scale").to_pylist(), from_base64(raw.field("value")).to_pylist()
    present = validity(raw)
    texts = [plain(v, s) if here else None for here, v, s in zip(present, values, scales, strict=True)]
    return pa.array(texts, pa.string())


def plain(unscaled: bytes, scale: int) -> str:
    """The number as plain text with all digits of its scale.

    Raises:
        ValueError: When there are no bytes.
    """
    if not unscaled:
        raise ValueError("a number has no bytes")
    number = int.from_bytes(unscaled, "big", signed=True)
    sign, digits = ("-" if number < 0 else ""), str(abs(number))
    if scale <= 0:
        return sign + digits + ("0" * -scale if number else "")
    digits = digits.rjust(scale + 1, "0")
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}"
