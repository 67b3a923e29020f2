"""Turns what pydantic finds into problems with JSON paths and the nearest known key."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import AliasChoices, BaseModel, ValidationError
from pydantic.fields import FieldInfo

from replicator_runtime.config.problem import Problem
from replicator_runtime.spelling import did_you_mean

Model = TypeVar("Model", bound=BaseModel)


def parse_model(model: type[Model], document: Mapping[str, Any], path: str = "") -> tuple[Model | None, list[Problem]]:
    """Read `document` as `model`, by the JSON's own key names.

    Args:
        model: The settings model.
        document: What the JSON holds at `path`.
        path: JSON path of the document, put in front of every problem's.

    Returns:
        The model and no problem, or None and every problem found.
    """
    try:
        return model.model_validate(document, by_alias=True, by_name=False), []
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        return None, [_problem(model, item["loc"], item["type"], item["msg"], path) for item in found]


def json_path(loc: tuple[int | str, ...], start: str = "") -> str:
    """`("stages", 0, "plugin")` as `stages[0].plugin`, after `start`."""
    path = start
    for part in loc:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            path += f".{part}" if path else part
    return path


def known_keys(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The keys `model` reads in JSON, with their fields."""
    keys: dict[str, FieldInfo] = {}
    for name, field in model.model_fields.items():
        alias = field.validation_alias or field.alias or name
        names = alias.choices if isinstance(alias, AliasChoices) else [alias]
        keys.update((key, field) for key in names if isinstance(key, str))
    return keys


def _problem(model: type[BaseModel], loc: tuple[int | str, ...], kind: str, message: str, start: str) -> Problem:
    path = json_path(loc, start)
    if kind == "extra_forbidden":
        keys = known_keys(_model_at(model, loc[:-1]) or model)
        return Problem(path, f'unknown key "{loc[-1]}"', did_you_mean(str(loc[-1]), keys))
    if kind == "missing":
        return Problem(path, "missing", f'add "{loc[-1]}"')
    if kind == "string_pattern_mismatch" and (rule := _rule_in_words(model, loc)):
        return Problem(path, rule)
    if kind == "tuple_type":
        return Problem(path, "input should be a list")
    message = message.removeprefix("Value error, ")
    return Problem(path, message[:1].lower() + message[1:])


def _rule_in_words(model: type[BaseModel], loc: tuple[int | str, ...]) -> str:
    """What the setting at `loc` says of its pattern (`json_schema_extra={"rule": …}`); empty when it says nothing."""
    field = known_keys(_model_at(model, loc[:-1]) or model).get(str(loc[-1]))
    extra = field.json_schema_extra if field is not None else None
    return str(extra.get("rule", "")) if isinstance(extra, dict) else ""


def _model_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> type[BaseModel] | None:
    """The model that reads the place `loc`; None when that place is not a model."""
    current: Any = model
    for part in loc:
        if isinstance(part, int):
            current = _element(current)
        elif _is_model(current):
            field = known_keys(current).get(part)
            current = _element(field.annotation) if field else None
    return current if _is_model(current) else None


def _element(annotation: Any) -> Any:
    """The model inside `Model | None`, `tuple[Model, ...]`, `dict[str, Model]` and the like; None when there is none."""
    if _is_model(annotation):
        return annotation
    origin = typing.get_origin(annotation)
    if origin is None and not isinstance(annotation, types.UnionType):
        return None
    return next((found for part in typing.get_args(annotation) if (found := _element(part))), None)


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
