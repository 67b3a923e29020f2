"""Epochs: numbers that are claimed once, by one process, and never again."""

from __future__ import annotations

import re
import secrets

from replicator_state.storage.folder import Folder, create_once

_NAME = re.compile(r"epoch\.(\d{20})(?:\.[0-9a-f]{16})?")
_KEPT = 20  # claims that stay; a run whose claim is gone was superseded long ago


class EpochRegister:
    """The claims of one generation, `epoch.<20 digits>`.

    Where the file system creates exclusively, the file's creation decides. Elsewhere every contender writes a claim of
    its own name, then lists: a contender that sees no other claim on its number has won, and one that sees another withdraws. Of two
    the later lister sees both, so two never win; both may lose and try again. That needs a listing that shows what was
    written before, which all object stores in use give.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def newest(self) -> int:
        """The highest epoch claimed so far, 0 when none."""
        return max(self._claims(), default=0)

    def read(self, epoch: int) -> bytes | None:
        """What the claimant of `epoch` wrote; None when the claim is gone."""
        for name in self._claims().get(epoch, []):
            try:
                return self._folder.read(name)
            except FileNotFoundError:
                continue
        return None

    def claim(self, epoch: int, content: bytes) -> bool:
        """Claim `epoch` for this caller; whether it won. `content` differs for every caller and is durable then."""
        name = _name(epoch)
        if self._folder.exclusive:
            try:
                create_once(self._folder, name, content)
            except FileExistsError:
                return False
            return self.newest() == epoch
        own = f"{name}.{secrets.token_hex(8)}"
        self._folder.create(own, content)
        claims = self._claims()
        if claims.get(epoch) == [own] and max(claims) == epoch:
            return True
        self._folder.remove(own)
        return False

    def begin_after(self, epoch: int, content: bytes) -> None:
        """Let the first claim of an empty register be above `epoch`. `content` says that its holder has given it back."""
        name = _name(epoch)
        create_once(self._folder, name if self._folder.exclusive else f"{name}.{secrets.token_hex(8)}", content)

    def superseded(self, epoch: int) -> bool:
        """Whether a higher epoch was claimed, or the claim on `epoch` itself is gone."""
        if self._folder.exclusive:
            # Claims have no gaps, so two look-ups answer what else needs a listing.
            return self._folder.exists(_name(epoch + 1)) or not self._folder.exists(_name(epoch))
        claims = self._claims()
        return epoch not in claims or max(claims) > epoch

    def forget_before(self, epoch: int) -> list[int]:
        """Delete claims so far below `epoch` that no running process holds them; returns their numbers."""
        old = {number: names for number, names in self._claims().items() if number < epoch - _KEPT}
        for names in old.values():
            for name in names:
                self._folder.remove(name)
        return list(old)

    def _claims(self) -> dict[int, list[str]]:
        claims: dict[int, list[str]] = {}
        for name in self._folder.names("epoch."):
            if match := _NAME.fullmatch(name):
                claims.setdefault(int(match[1]), []).append(name)
        return claims


def _name(epoch: int) -> str:
    return f"epoch.{epoch:020d}"
