"""Builds column definitions from a statement's syntax."""

from __future__ import annotations

from replicator_source_mysql.ddl.apply.default_value import UnknownDefaultError, constant_text
from replicator_source_mysql.ddl.lex.session import Session
from replicator_source_mysql.ddl.parse.column_syntax import ColumnSyntax
from replicator_source_mysql.ddl.parse.default_syntax import DefaultSyntax, Form
from replicator_source_mysql.ddl.parse.type_syntax import ResolvedType, resolve_type
from replicator_source_mysql.definition import ColumnDefinition


def build_column(syntax: ColumnSyntax, charset: str, session: Session, *, has_timestamp: bool) -> ColumnDefinition:
    """The column that `syntax` defines.

    Args:
        syntax: As written.
        charset: The table's default character set; empty when not known.
        session: Whose statement it is.
        has_timestamp: Whether the table has a TIMESTAMP before this column. Only the first one updates itself when
            `explicit_defaults_for_timestamp` is off.

    Raises:
        UnreadError: When its character set is not known.
    """
    kind = resolve_type(syntax.type, syntax.charset or charset, session)
    nullable = syntax.nullable if syntax.nullable is not None else not syntax.is_auto_increment
    default, is_computed = _default(kind, syntax.default, session)
    if kind.syntax.name == "timestamp" and not session.has_explicit_timestamps and not syntax.is_generated:
        nullable = bool(syntax.nullable)
        if not nullable and syntax.default.form is Form.NONE:
            is_computed = not has_timestamp or syntax.updates_itself
            default = None if is_computed else _default(kind, _ZERO, session)[0]
    return ColumnDefinition(
        syntax.name,
        kind.text,
        nullable,
        kind.charset,
        default,
        is_computed,
        syntax.is_generated,
        syntax.is_invisible,
        syntax.is_auto_increment,
    )


_ZERO = DefaultSyntax(Form.TEXT, "0000-00-00 00:00:00")


def _default(kind: ResolvedType, default: DefaultSyntax, session: Session) -> tuple[str | None, bool]:
    """The default's text, and whether it is computed."""
    try:
        return constant_text(kind, default, session), False
    except UnknownDefaultError:
        return None, True


def with_default(
    column: ColumnDefinition, kind: ResolvedType, default: DefaultSyntax, session: Session
) -> ColumnDefinition:
    """`column` with another default."""
    text, is_computed = _default(kind, default, session)
    return ColumnDefinition(
        column.name,
        column.type,
        column.nullable,
        column.charset,
        text,
        is_computed,
        column.is_generated,
        column.is_invisible,
        column.is_auto_increment,
    )
