"""Types as statements write them, and as `information_schema.COLUMNS.COLUMN_TYPE` does."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from replicator_source_mysql.ddl.lex.session import Session
from replicator_source_mysql.ddl.lex.token_cursor import TokenCursor
from replicator_source_mysql.ddl.lex.tokenizer import Kind, Token, UnreadError
from replicator_source_mysql.types.charset_names import BINARY, bytes_per_character

_SYNONYMS = {
    "int1": "tinyint", "int2": "smallint", "int3": "mediumint", "middleint": "mediumint", "int4": "int", "integer": "int",
    "int8": "bigint", "dec": "decimal", "numeric": "decimal", "fixed": "decimal", "float4": "float", "float8": "double",
    "varcharacter": "varchar", "character": "char", "boolean": "bool",
}  # fmt: skip
# Digits shown where the statement gives no display width: signed, unsigned.
_WIDTHS = {"tinyint": (4, 3), "smallint": (6, 5), "mediumint": (9, 8), "int": (11, 10), "bigint": (20, 20)}
_GEOMETRY = {
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection",
    "geomcollection",
}  # fmt: skip
_TEXT = {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"}
_AS_BINARY = {
    "char": "binary", "varchar": "varbinary", "tinytext": "tinyblob", "text": "blob", "mediumtext": "mediumblob",
    "longtext": "longblob",
}  # fmt: skip
_OTHERS = {
    "bit", "bool", "decimal", "float", "double", "real", "date", "datetime", "time", "timestamp", "year", "binary",
    "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "json", "vector", "uuid", "inet4", "inet6", "serial",
}  # fmt: skip
_SIMPLE = {*_WIDTHS, *_GEOMETRY, *_TEXT, *_OTHERS}
_ONE_BY_DEFAULT = {"char": 1, "binary": 1, "bit": 1, "vector": 2048}
_FLOAT_BITS = 24
_FRACTIONAL = {"datetime", "timestamp", "time"}
_VISIBLE = {"\0": "\\0", "\n": "\\n", "\r": "\\r", "\\": "\\\\", "'": "''"}
_MAX_VARCHAR_BYTES = 65_535


@dataclass(frozen=True, slots=True)
class TypeSyntax:
    """A type as a statement writes it, synonyms resolved.

    Attributes:
        name: `int`, `varchar`, `enum`.
        numbers: What is in its brackets.
        members: Members of an ENUM or SET.
        is_unsigned: UNSIGNED, or ZEROFILL.
        is_zerofill: ZEROFILL.
        is_compressed: MariaDB's COMPRESSED.
        charset: The character set that belongs to the type's own name (NCHAR, ASCII); empty when it has none.
        is_bytes: `CHAR(3) BYTE`.
    """

    name: str
    numbers: tuple[int, ...] = ()
    members: tuple[str, ...] = ()
    is_unsigned: bool = False
    is_zerofill: bool = False
    is_compressed: bool = False
    charset: str = ""
    is_bytes: bool = False

    @property
    def is_text(self) -> bool:
        """Whether a character set belongs to it."""
        return self.name in _TEXT


@dataclass(frozen=True, slots=True)
class ResolvedType:
    """A type with its character set known.

    Attributes:
        text: As COLUMN_TYPE writes it.
        syntax: Its parts.
        charset: Of text, ENUM and SET; else empty.
    """

    text: str
    syntax: TypeSyntax
    charset: str = field(default="")


def read_type(cursor: TokenCursor, session: Session) -> TypeSyntax:
    """Pass a type, with its brackets and the attributes that follow it at once."""
    name, charset = _read_name(cursor, session)
    if name in {"enum", "set"}:
        return TypeSyntax(name, members=_members(cursor.skip_brackets()), charset=charset)
    if name not in _SIMPLE:
        raise UnreadError(f"the type {name} is not known")
    numbers = _numbers(cursor.skip_brackets()) if cursor.peek() == "(" else ()
    return TypeSyntax(name, numbers, charset=charset)


def with_attribute(kind: TypeSyntax, word: str) -> TypeSyntax | None:
    """`kind` with the attribute `word`, None when it is no attribute of a type."""
    changed = _ATTRIBUTES.get(word)
    return None if changed is None else replace(kind, **changed)


_ATTRIBUTES: dict[str, dict[str, Any]] = {
    "UNSIGNED": {"is_unsigned": True},
    "ZEROFILL": {"is_unsigned": True, "is_zerofill": True},
    "ASCII": {"charset": "latin1"},
    "UNICODE": {"charset": "ucs2"},
    "BYTE": {"is_bytes": True},
    "SIGNED": {},
    "BINARY": {},  # the binary collation of the character set
}


def _read_name(cursor: TokenCursor, session: Session) -> tuple[str, str]:
    charset = ""
    word = cursor.word()
    if word == "national":
        word, charset = cursor.word(), "utf8mb3"
    elif word in {"nchar", "nvarchar"}:
        word, charset = word[1:], "utf8mb3"
    if word == "long":
        return _long(cursor), charset
    if word == "double":
        cursor.accept("PRECISION")
    if word == "real":
        word = "float" if session.real_is_float else "double"
    word = _SYNONYMS.get(word, word)
    if word == "char" and cursor.accept_any("VARYING", "VARCHAR", "VARCHARACTER"):
        word = "varchar"
    return word, charset


def _long(cursor: TokenCursor) -> str:
    if cursor.accept("VARBINARY"):
        return "mediumblob"
    if cursor.accept_any("CHAR", "CHARACTER"):
        cursor.expect("VARYING")
    else:
        cursor.accept_any("VARCHAR", "VARCHARACTER")
    return "mediumtext"


def _members(tokens: list[Token]) -> tuple[str, ...]:
    members: list[str] = []
    for n, token in enumerate(tokens):
        if n % 2 == 0 and token.kind is not Kind.STRING:
            raise UnreadError("a member of an ENUM or SET is no plain string")
        if n % 2 == 1 and token.text != ",":
            raise UnreadError("a member of an ENUM or SET is no plain string")
        if n % 2 == 0:
            members.append(token.text)
    return tuple(members)


def _numbers(tokens: list[Token]) -> tuple[int, ...]:
    inside = "".join(token.text for token in tokens)
    parts = inside.split(",")
    if not all(part.isdigit() for part in parts):
        raise UnreadError("a type has more than numbers in its brackets")
    return tuple(map(int, parts))


def resolve_type(kind: TypeSyntax, charset: str, session: Session) -> ResolvedType:
    """`kind` in a column of character set `charset` (where it says none of its own).

    Raises:
        UnreadError: When the character set matters and is not known.
    """
    kind = _settled(kind, session)
    if kind.name == "json" and session.is_mariadb:
        return ResolvedType("longtext", replace(kind, name="longtext"), "utf8mb4")
    if not kind.is_text:
        return ResolvedType(_written(_sized(kind, 1), session), _sized(kind, 1))
    own = BINARY if kind.is_bytes else kind.charset or charset
    if not own:
        raise UnreadError("the database's default character set is not known")
    if own == BINARY and kind.name in _AS_BINARY:
        as_binary = _sized(replace(kind, name=_AS_BINARY[kind.name]), 1)
        return ResolvedType(_written(as_binary, session), as_binary)
    sized = _sized(kind, bytes_per_character(own))
    if own != BINARY and sized.members:
        sized = replace(sized, members=tuple(member.rstrip(" ") for member in sized.members))
    shown = "" if own == BINARY and not session.is_mariadb else own  # MySQL's catalogue names no such character set
    return ResolvedType(_written(sized, session), sized, shown)


def _settled(kind: TypeSyntax, session: Session) -> TypeSyntax:
    """Types that are other types by another name."""
    if kind.name == "bool":
        return replace(kind, name="tinyint", numbers=(1,))
    if kind.name == "serial":
        return replace(kind, name="bigint", is_unsigned=True)
    if kind.name == "geometrycollection" and not session.is_mariadb:
        return replace(kind, name="geomcollection")
    return replace(kind, **_numbers_settled(kind))


def _numbers_settled(kind: TypeSyntax) -> dict[str, Any]:
    if kind.name == "decimal":
        return {"numbers": (10, 0) if kind.numbers in {(), (0,)} else (*kind.numbers, 0)[:2]}
    if kind.name in {"float", "double"} and len(kind.numbers) == 1:
        is_float = kind.name == "float" and kind.numbers[0] <= _FLOAT_BITS
        return {"name": "float" if is_float else "double", "numbers": ()}
    return {"numbers": ()} if kind.name in _FRACTIONAL and kind.numbers == (0,) else {}


def _sized(kind: TypeSyntax, character_bytes: int) -> TypeSyntax:
    """Sizes that are implied, and names that follow from a size."""
    if kind.name in _ONE_BY_DEFAULT and not kind.numbers:
        return replace(kind, numbers=(_ONE_BY_DEFAULT[kind.name],))
    if kind.name in {"text", "blob"} and kind.numbers:
        return replace(kind, name=_fitting(kind.name, kind.numbers[0] * character_bytes), numbers=())
    if kind.name in {"varchar", "varbinary"}:
        size = kind.numbers[0] * character_bytes if kind.numbers else 0
        if size > _MAX_VARCHAR_BYTES:
            return replace(kind, name=_fitting("text" if kind.name == "varchar" else "blob", size), numbers=())
    return kind


def _fitting(name: str, size: int) -> str:
    if not size:
        return name
    prefix = "tiny" if size < 2**8 else "" if size < 2**16 else "medium" if size < 2**24 else "long"
    return prefix + name


def _written(kind: TypeSyntax, session: Session) -> str:
    name = kind.name
    if kind.members:
        return f"{name}({','.join(map(_quoted, kind.members))})"
    if name in _WIDTHS:
        text = name + _width(kind, session)
    elif name == "year":
        text = "year(4)" if session.is_mariadb else "year"
    else:
        text = name + (f"({','.join(map(str, kind.numbers))})" if kind.numbers else "")
    text += " unsigned" * kind.is_unsigned + " zerofill" * kind.is_zerofill
    return text + (" /*M!100301 COMPRESSED*/" if kind.is_compressed else "")


def _width(kind: TypeSyntax, session: Session) -> str:
    """MariaDB shows display widths always, MySQL (since 8.0.19) for ZEROFILL and for what may be a boolean."""
    signed, unsigned = _WIDTHS[kind.name]
    width = kind.numbers[0] if kind.numbers else unsigned if kind.is_unsigned else signed
    is_boolean = kind.name == "tinyint" and width == 1 and not kind.is_unsigned
    return f"({width})" if session.is_mariadb or kind.is_zerofill or is_boolean else ""


def _quoted(member: str) -> str:
    return "'" + "".join(_VISIBLE.get(character, character) for character in member) + "'"
