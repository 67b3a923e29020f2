"""Describes a settings model key by key, for the command line and the generated tables in `docs/configuration.md`."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class Setting:
    """One key.

    Attributes:
        key: Its name in JSON, with the keys around it (`batch.maxRows`, `tables[].columns`).
        type: The allowed values, in words.
        default: The value when left out, as JSON; `required` when it may not be.
        description: What it does.
    """

    key: str
    type: str
    default: str
    description: str

    def to_json(self) -> dict[str, str]:
        """The JSON form printed by `replicator plugins NAME --json`."""
        return {"key": self.key, "type": self.type, "default": self.default, "description": self.description}


def describe_settings(model: type[BaseModel]) -> list[Setting]:
    """Every key of `model` and of the objects inside it, in the order they are declared."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    documented = _documented_attributes(model)
    for key, place in schema.get("properties", {}).items():
        place.setdefault("description", documented.get(key, ""))
    return _describe(schema, schema.get("$defs", {}), "")


def settings_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of `model`, each key with its description; secret ones are `writeOnly`."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    documented = _documented_attributes(model)
    schema["description"] = schema.get("description", "").partition("\n\n")[0]
    for setting in describe_settings(model):
        place = schema.get("properties", {}).get(setting.key)
        if place is not None:
            place.setdefault("description", documented.get(setting.key) or setting.description)
            _mark_secret(place)
    return schema


def _mark_secret(place: dict[str, Any]) -> None:
    """Lift what says that a value is secret from the alternatives of a key to the key."""
    if any(option.get("writeOnly") for option in place.get("anyOf", ())):
        place["writeOnly"] = True


def _documented_attributes(model: type[BaseModel]) -> dict[str, str]:
    """Key → what the "Attributes" of the model's docstrings say of it, for fields without a description of their own."""
    keys = {name: field.alias or name for name, field in model.model_fields.items()}
    found: dict[str, str] = {}
    key = ""
    texts = [inspect.cleandoc(kind.__doc__ or "") for kind in reversed(model.__mro__) if issubclass(kind, BaseModel)]
    for line in "\n".join(texts).splitlines():
        name, colon, text = line.strip().partition(": ")
        if colon and line.startswith("    ") and not line.startswith("     ") and name in keys:
            key, found[keys[name]] = keys[name], text
        elif key and line.startswith("     "):
            found[key] += " " + line.strip()
        else:
            key = ""
    return {name: _in_json_names(text, keys) for name, text in found.items()}


def _in_json_names(text: str, keys: Mapping[str, str]) -> str:
    """`text` with fields named as the pipeline's JSON writes them."""
    for name, key in keys.items():
        text = text.replace(f"`{name}`", f"`{key}`")
    return text


def _describe(schema: dict[str, Any], definitions: dict[str, Any], prefix: str) -> list[Setting]:
    settings: list[Setting] = []
    required = set(schema.get("required", ()))
    for key, place in schema.get("properties", {}).items():
        options = _options(place, definitions)
        inner, mark = _inner_object(options, definitions)
        settings.append(
            Setting(
                prefix + key,
                " or ".join(dict.fromkeys(_type(option, definitions) for option in options)),
                "required" if key in required else _default(place),
                place.get("description") or _first_line(options),
            )
        )
        if inner is not None:
            settings += _describe(inner, definitions, f"{prefix}{key}{mark}.")
    return settings


def _options(place: dict[str, Any], definitions: dict[str, Any]) -> list[dict[str, Any]]:
    """The alternatives that a schema node allows, without null and with references followed."""
    options = place.get("anyOf") or place.get("allOf") or [place]
    return [_follow(option, definitions) for option in options if option.get("type") != "null"]


def _follow(place: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    reference = place.get("$ref")
    return definitions[reference.rpartition("/")[2]] if reference else place


def _inner_object(options: list[dict[str, Any]], definitions: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
    for option in options:
        if "properties" in option:
            return option, ""
        if option.get("type") == "array" and "properties" in (item := _follow(option.get("items", {}), definitions)):
            return item, "[]"
    return None, ""


def _first_line(options: list[dict[str, Any]]) -> str:
    """What the settings object itself says, where the key adds nothing to that."""
    described = (option.get("description", "") for option in options if "properties" in option)
    return next(described, "").partition("\n")[0]


def _type(place: dict[str, Any], definitions: dict[str, Any]) -> str:
    if "enum" in place:
        return ", ".join(f"`{value}`" for value in place["enum"])
    if "const" in place:
        return f"`{place['const']}`"
    if place.get("type") == "array":
        inner = _options(place.get("items", {}), definitions)
        return "list of " + (" or ".join(_type(option, definitions) for option in inner) or "values")
    if place.get("format") == "password":
        return "secret text"
    words = {"string": "text", "integer": "integer", "number": "number", "boolean": "true or false", "object": "object"}
    return words.get(place.get("type", ""), "any") + _bounds(place)


def _bounds(place: dict[str, Any]) -> str:
    marks = (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("exclusiveMaximum", "<"))
    found = [f"{sign} {place[key]:,.10g}" for key, sign in marks if key in place]
    return f" ({', '.join(found)})" if found else ""


def _default(place: dict[str, Any]) -> str:
    """The default as JSON; empty for none, and for an object whose own keys have theirs."""
    value = place.get("default")
    return "" if value is None or isinstance(value, dict) else json.dumps(value, ensure_ascii=False)
