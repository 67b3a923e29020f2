"""Walks over the tokens of one statement; a missing token is an `UnreadError`."""

from __future__ import annotations

from collections.abc import Sequence

from replicator_sdk.schema import TableId
from replicator_source_mysql.ddl.lex.tokenizer import Kind, Token, UnreadError

_END = Token(Kind.MARK, "")


class TokenCursor:
    """A position in a statement.

    Args:
        tokens: The statement's tokens.
        database: The database of names without one.
    """

    def __init__(self, tokens: Sequence[Token], database: str) -> None:
        self._tokens = tokens
        self._at = 0
        self.database = database

    @property
    def at(self) -> int:
        """The position; set it to go back."""
        return self._at

    @at.setter
    def at(self, place: int) -> None:
        self._at = place

    @property
    def done(self) -> bool:
        """Whether nothing is left but a semicolon."""
        return self._at >= len(self._tokens) or (self._at == len(self._tokens) - 1 and self.peek() == ";")

    def token(self, ahead: int = 0) -> Token:
        """The next token, or the one `ahead` of it; an empty mark at the end."""
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else _END

    def peek(self, ahead: int = 0) -> str:
        """The next bare word in upper case, or mark; empty for names, literals and at the end."""
        token = self.token(ahead)
        return token.text.upper() if token.kind in {Kind.WORD, Kind.MARK} else ""

    def take(self) -> Token:
        """The next token, passed."""
        token = self.token()
        if token is _END:
            raise UnreadError("it ends too early")
        self._at += 1
        return token

    def accept(self, *words: str) -> bool:
        """Pass these words or marks, when all of them come next."""
        if all(self.peek(n) == word for n, word in enumerate(words)):
            self._at += len(words)
            return True
        return False

    def accept_any(self, *words: str) -> str:
        """Pass one of these words and return it, upper case; empty when none comes next."""
        word = self.peek()
        if word and word in words:
            self._at += 1
            return word
        return ""

    def expect(self, *words: str) -> None:
        """Pass these words or marks."""
        if not self.accept(*words):
            raise UnreadError(f"{' '.join(words)} is missing")

    def name(self) -> str:
        """Pass a name, quoted or not."""
        token = self.token()
        if token.kind not in {Kind.WORD, Kind.NAME}:
            raise UnreadError("a name is missing")
        self._at += 1
        return token.text

    def has_name(self) -> bool:
        """Whether a name comes next."""
        return self.token().kind in {Kind.WORD, Kind.NAME}

    def word(self) -> str:
        """Pass a bare word, returned in lower case."""
        token = self.take()
        if token.kind is not Kind.WORD:
            raise UnreadError("a word is missing")
        return token.text.lower()

    def name_or_text(self) -> str:
        """Pass a name or a string: names of character sets and collations may be either."""
        return self.take().text if self.token().kind is Kind.STRING else self.name()

    def integer(self) -> int:
        """Pass a whole number."""
        token = self.take()
        if token.kind is not Kind.NUMBER or not token.text.isdigit():
            raise UnreadError("a number is missing")
        return int(token.text)

    def table(self) -> TableId:
        """Pass a table's name, with its database or without."""
        self.accept(".")
        first = self.name()
        if self.accept("."):
            return TableId(first, self._after_dot())
        if not self.database:
            raise UnreadError("a table is named without its database")
        return TableId(self.database, first)

    def _after_dot(self) -> str:
        if self.token().kind is Kind.NUMBER:
            return self.take().text
        return self.name()

    def tables(self) -> list[TableId]:
        """Pass names of tables with commas between."""
        found = [self.table()]
        while self.accept(","):
            found.append(self.table())
        return found

    def skip_brackets(self) -> list[Token]:
        """Pass everything in a pair of round brackets; the tokens inside."""
        self.expect("(")
        start, depth = self._at, 1
        while depth:
            mark = self.peek()
            depth += (mark == "(") - (mark == ")")
            self.take()
        return list(self._tokens[start : self._at - 1])

    def skip_to_comma(self) -> None:
        """Pass everything up to a comma outside of brackets, or the end."""
        while not self.done and self.peek() != ",":
            if self.peek() == "(":
                self.skip_brackets()
            elif self.peek() == ")":
                return
            else:
                self.take()

    def finish(self) -> None:
        """The statement ends here."""
        if not self.done:
            raise UnreadError(f"it goes on after token {self._at} in a way that is not known")
