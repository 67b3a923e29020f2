"""Doubles as MySQL writes them into JSON text."""

from __future__ import annotations

_MOST_PLACES = 15
"""Numbers with the point further out than this are written with an exponent, unless digits are on both sides of it."""
_PLAIN_LENGTH = 17
"""Up to this length Python writes a number without an exponent exactly as MySQL does."""


def double_text(number: float) -> str:
    """The shortest digits that read back as `number`; 1.0 for a whole number, 1e20 for a large one."""
    written = repr(number)
    if len(written) <= _PLAIN_LENGTH and "e" not in written:
        return written
    sign, written = ("-", written[1:]) if written[0] == "-" else ("", written)
    mantissa, _, exponent = written.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = whole + (fraction if fraction != "0" else "")
    point = len(whole) + int(exponent or 0)
    stripped = digits.lstrip("0")
    point -= len(digits) - len(stripped)
    digits = stripped.rstrip("0")
    if not digits:
        return sign + "0.0"
    if -_MOST_PLACES < point <= max(_MOST_PLACES, len(digits) - 1):
        return sign + _plain(digits, point)
    rest = "." + digits[1:] if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{point - 1}"


def _plain(digits: str, point: int) -> str:
    if point <= 0:
        return "0." + "0" * -point + digits
    if point >= len(digits):
        return digits + "0" * (point - len(digits)) + ".0"
    return digits[:point] + "." + digits[point:]
