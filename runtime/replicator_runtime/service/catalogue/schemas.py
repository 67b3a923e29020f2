"""Bodies and answers of plugins and connections."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from replicator_runtime.service.drafts.schemas import Answer


class PluginItem(Answer):
    """A plugin that pipelines may name."""

    name: str = Field(description="Its name in a stage's `plugin`.")
    type: Literal["cdcSource", "cdcTarget"] = Field(description="Its type there.")
    title: str = Field(description="One line for people.")
    package: str = Field(description="The package that offers it, with its version.")


class PluginDetail(PluginItem):
    """A plugin with its settings."""

    schema_: dict[str, Any] = Field(
        alias="schema", description="JSON Schema of a stage's `properties`; secret ones are `writeOnly`."
    )
    documentation: str = Field(description="Markdown.")


class PluginSettings(BaseModel):
    """A stage's `plugin`."""

    model_config = ConfigDict(extra="ignore")

    name: str = Field(min_length=1, max_length=255, description="The plugin's name.")
    type: Literal["cdcSource", "cdc-origin", "cdcTarget", "cdc-destination"]
    properties: dict[str, Any] = Field(default_factory=dict, description="Its settings; secrets as macros only.")

    @property
    def end(self) -> Literal["source", "target"]:
        """Which end of a pipeline it is."""
        return "source" if self.type in {"cdcSource", "cdc-origin"} else "target"


class ConnectionBody(BaseModel):
    """A connection as it is written."""

    plugin: PluginSettings


class ConnectionAnswer(Answer):
    """A connection: the settings of a source or a target under a name."""

    name: str
    created: datetime
    updated: datetime
    plugin: PluginSettings


class Check(Answer):
    """One thing that a test of a connection has looked at."""

    name: str = Field(description="Unique in its list, and stable.")
    status: Literal["ok", "warn", "fail", "skipped"]
    message: str = Field(description="What was found.")
    fix: str = Field(default="", description="The statement that fixes it, ready to paste; empty where there is none.")
    hint: str = Field(default="", description="What to do about it, in words.")
    code: str | None = Field(default=None, description="The code of an error of the same cause.")
