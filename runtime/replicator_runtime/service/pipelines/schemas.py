"""Bodies and answers of the pipelines' operations."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from replicator_runtime.service.observation.fleet import Summary
from replicator_runtime.service.supervision.states import State, Wanted

NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$"
Config = Annotated[
    dict[str, Any], Field(description="The pipeline JSON (docs/configuration.md); secrets as references only.")
]


class NewPipeline(BaseModel):
    """A pipeline to create, from a draft or a config."""

    model_config = ConfigDict(extra="forbid")

    name: str | None = Field(
        default=None, pattern=NAME, description="The draft's, or the config's `name`, when left out."
    )
    draft: str | None = Field(default=None, pattern=NAME, description="The draft that has the config.")
    config: Config | None = None
    start: bool = Field(default=False, description="Start it, too.")

    @model_validator(mode="after")
    def _has_one_config(self) -> Self:
        if (self.draft is None) == (self.config is None):
            raise ValueError("give either `draft` or `config`")
        return self


class PipelineConfigBody(BaseModel):
    """The config that a pipeline is to have."""

    config: Config


class Process(BaseModel):
    """A process of a pipeline."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    process_id: str = Field(alias="id")
    command: str = Field(description="`run` or `delete`.")
    started: datetime
    ended: datetime | None = Field(description="Null while it runs.")
    exit_code: int | None = Field(description="As docs/cli.md lists them; null while it runs, or when unknown.")


class ProcessOutput(BaseModel):
    """What a process has printed on standard error."""

    process: Process
    text: str | None = Field(
        description="The end of it, whole lines. Null where this service does not have it: a Job's is with Kubernetes."
    )
    others: list[Process] = Field(description="The other processes that are remembered, the newest first.")


class PipelineItem(Summary):
    """A pipeline in a list: what is wanted of it, how its process is, and what its newest run has written last."""

    namespace: str
    name: str
    created: datetime
    updated: datetime
    wanted: Wanted = Field(description="What the service brings about.")
    state: State = Field(description="How its process is.")
    config_version: int = Field(description="Grows with each edit.")
    running_version: int | None = Field(description="The version that its process was started with; null without one.")
    started: datetime | None = Field(description="When its newest process was started.")
    ended: datetime | None = Field(description="When that ended; null while it runs.")
    exit_code: int | None = Field(
        description="Of its newest process (docs/cli.md); null while it runs, or when unknown."
    )
    restarts: int = Field(description="How many starts in a row have failed.")
    next_start: datetime | None = Field(description="When the next one is tried, in the state `backoff`.")


class PipelineAnswer(PipelineItem):
    """A pipeline with its config."""

    config: Config
