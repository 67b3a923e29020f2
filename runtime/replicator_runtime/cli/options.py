"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PipelineFile = Annotated[Path, typer.Argument(metavar="PIPELINE", help="The pipeline JSON.", show_default=False)]
Replicator = Annotated[
    str, typer.Argument(metavar="NAME", help="A replicator's name, or its pipeline JSON.", show_default=False)
]
Namespace = Annotated[str, typer.Option(help="The namespace of NAME.")]
Base = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        help="Where its state is stored: folder or fsspec URL; `$XDG_STATE_HOME/replicator` when left out.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show where in the program an error came from.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Timeout = Annotated[float, typer.Option(min=0, help="Wait for the outcome for so many seconds, then withdraw it.")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Do not wait for the outcome.")]
