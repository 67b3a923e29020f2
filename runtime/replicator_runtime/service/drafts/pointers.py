"""From the command line's JSON paths (`stages[0].plugin.name`) to JSON Pointers (`/stages/0/plugin/name`)."""

from __future__ import annotations

import re
from typing import Any

_INDEX = re.compile(r"\[(\d+)\]")


def pointer_of(path: str, document: Any) -> str:
    """The pointer to what `path` names in `document`.

    A key may hold dots and brackets: where several readings are possible, the one of which the document has most is taken.
    """
    pointer = ""
    place, rest = document, path
    while rest:
        key, rest = _first(rest, place)
        pointer += "/" + key.replace("~", "~0").replace("/", "~1")
        place = _inside(place, key)
    return pointer


def _first(path: str, place: Any) -> tuple[str, str]:
    """The first part of `path`, and what follows it."""
    if index := _INDEX.match(path):
        return index[1], path[index.end() :].removeprefix(".")
    if isinstance(place, dict):
        fits = [k for k in place if k and path.startswith(k) and path[len(k) :][:1] in {"", ".", "["}]
        if fits:
            key = max(fits, key=len)
            return key, path[len(key) :].removeprefix(".")
    end = min((at for at in (path.find("."), path.find("[")) if at > 0), default=len(path))
    return path[:end], path[end:].removeprefix(".")


def _inside(place: Any, key: str) -> Any:
    if isinstance(place, dict):
        return place.get(key)
    if isinstance(place, list) and key.isdigit() and int(key) < len(place):
        return place[int(key)]
    return None
