"""Attributes replaced for a while."""

from __future__ import annotations

from typing import Any, Self


class Patch:
    """Attributes replaced while the block lasts; pytest has the same, but takes a quarter of a second to import."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []

    def setattr(self, owner: Any, name: str, value: Any) -> None:
        """Replace an attribute of a class, a module or an object."""
        self._before.append((owner, name, vars(owner).get(name, self)))
        setattr(owner, name, value)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for owner, name, value in reversed(self._before):
            if value is self:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
