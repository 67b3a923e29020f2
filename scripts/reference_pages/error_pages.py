"""The pages of error codes: an index, and one page for each area of the code base."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reference_pages.error_codes import Meaning, error_codes


@dataclass(frozen=True)
class Area:
    """One page of error codes.

    Attributes:
        title: Its heading.
        package: The package whose codes it lists.
        guide: The page, relative to `docs/`, that explains the subject.
    """

    title: str
    package: str
    guide: str


AREAS: Mapping[str, Area] = {
    "runtime": Area("Pipeline, plugins, commands, demo, Spark", "replicator_runtime", "configuration.md"),
    "engine": Area("Selection of tables, engine", "replicator_runtime.engine", "operating.md"),
    "state": Area("State, offsets, lease", "replicator_state", "operating.md"),
    "sdk": Area("Contract of plugins, conformance kit", "replicator_sdk", "writing-a-plugin.md"),
    "source-postgres": Area("PostgreSQL as a source", "replicator_source_postgres", "source-postgres.md"),
    "source-mysql": Area("MySQL and MariaDB as a source", "replicator_source_mysql", "source-mysql.md"),
    "source-kafka": Area("Kafka as a source", "replicator_source_kafka", "source-kafka.md"),
    "source-sqlite": Area("SQLite as a source", "replicator_source_sqlite", "source-sqlite.md"),
    "source-archive": Area("A change archive as a source", "replicator_source_archive", "source-archive.md"),
    "target-delta": Area("Delta Lake as a target", "replicator_target_delta", "target-delta.md"),
    "target-iceberg": Area("Apache Iceberg as a target", "replicator_target_iceberg", "target-iceberg.md"),
    "target-bigquery": Area("BigQuery as a target", "replicator_target_bigquery", "target-bigquery.md"),
}


def area_of(meaning: Meaning) -> str:
    """The name of the page that lists a code.

    A code that the engine and the commands share is on the engine's page.

    Raises:
        LookupError: When no area has the code's package.
    """
    packages = {"replicator_runtime.engine"} & meaning.packages or meaning.packages
    for name, area in AREAS.items():
        if {area.package} == packages:
            return name
    raise LookupError(f"no page of error codes is for {sorted(meaning.packages)}: add one to AREAS")


def index_part() -> str:
    """The table of `docs/errors.md`: each code with its first message and its page."""
    lines = ["| code | what happened | page |", "|---|---|---|"]
    for code, meaning in error_codes().items():
        page = f"errors/{area_of(meaning)}.md"
        anchor = f'<a id="{code.lower()}"></a>'
        message = _sentence(meaning.messages[0]).replace("|", "\\|")
        lines.append(f"| {anchor}[{code}]({page}#{code.lower()}) | {message} | [{area_of(meaning)}]({page}) |")
    return "\n".join(lines)


def area_page(name: str) -> str:
    """The whole text of `docs/errors/<name>.md`."""
    area = AREAS[name]
    lines = [
        f"# Error codes: {area.title}",
        "",
        f"The classes and exit codes are explained in [errors.md](../errors.md), the subject in [{area.guide}](../{area.guide}).",
        "This page is generated from the code by `python scripts/reference_docs.py`.",
        "",
    ]
    for code, meaning in error_codes().items():
        if area_of(meaning) == name:
            lines += _section(code, meaning)
    return "\n".join(lines).rstrip() + "\n"


def _section(code: str, meaning: Meaning) -> list[str]:
    from replicator_sdk import errors

    exits = {n: k.exit_code for n, k in vars(errors).items() if isinstance(k, type) and hasattr(k, "exit_code")}
    ends = sorted({exits[kind] for kind in meaning.kinds if kind in exits})
    return [
        f"## {code}",
        "",
        *(f"- {_sentence(message)}" for message in meaning.messages),
        *(f"- **Next:** {_sentence(hint)}" for hint in meaning.hints),
        f"- {_sentence(_appearance(meaning, ends))}",
        "",
    ]


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + ("" if text.endswith("?") else ".")


def _appearance(meaning: Meaning, ends: Sequence[int]) -> str:
    shown = [f"`{kind}`" for kind in sorted(meaning.kinds - {"log", "finding"})]
    shown += ["a warning in the log"] if "log" in meaning.kinds else []
    shown += ["a finding of an assessment"] if "finding" in meaning.kinds else []
    ending = f"; exit code {' or '.join(map(str, ends))}" if ends else ""
    return f"{' or '.join(shown) or 'error'} of {', '.join(sorted(meaning.packages))}{ending}"
