"""Assessment: reports what will go wrong with a source, a target or a table before a run starts."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Self

from replicator_sdk.schema import TableId, TableSchema


class Severity(enum.StrEnum):
    """How bad a finding is; ERROR blocks a start."""

    ERROR = "ERROR"
    WARNING = "WARNING"
    INFO = "INFO"


class Support(enum.StrEnum):
    """Whether a column arrives: whole, changed in a stated way, or not at all."""

    YES = "YES"
    PARTIAL = "PARTIAL"
    NO = "NO"


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem, or one fact worth knowing.

    Attributes:
        name: Short and stable, e.g. `wal_level`.
        severity: How bad.
        description: What was found.
        impact: What it does to the replicator or to the source.
        suggestion: What to do, in words.
        fix: The exact statement that fixes it, ready to paste; empty when there is none.
        table: The table concerned; None when it is the whole source or target.
        column: The column concerned; empty when it is the whole table.
        code: Stable code `RPL-nnnn` where an error of the same cause would carry one.
    """

    name: str
    severity: Severity
    description: str
    impact: str
    suggestion: str
    fix: str = ""
    table: TableId | None = None
    column: str = ""
    code: str = ""

    def to_json(self) -> dict[str, Any]:
        """The JSON form printed by `replicator assess --json`."""
        return {
            "name": self.name,
            "severity": self.severity.value,
            "description": self.description,
            "impact": self.impact,
            "suggestion": self.suggestion,
            "fix": self.fix,
            "table": str(self.table) if self.table else None,
            "column": self.column or None,
            "code": self.code or None,
        }


@dataclass(frozen=True, slots=True)
class ColumnAssessment:
    """How one column arrives.

    Attributes:
        name: The source's name, kept at the target.
        source_type: The source's own type.
        target_type: The standard type (source's assessor) or the target's own type (target's assessor).
        support: Whole, changed, or not at all.
        note: What is changed, in words; empty when whole.
    """

    name: str
    source_type: str
    target_type: str
    support: Support = Support.YES
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """The JSON form; its keys are part of the command line's stable output."""
        return {
            "sourceName": self.name,
            "targetName": self.name,
            "sourceType": self.source_type,
            "targetType": self.target_type,
            "support": self.support.value,
            "note": self.note or None,
        }


@dataclass(frozen=True, slots=True)
class TableAssessment:
    """What is known of one table before it is replicated."""

    table: TableId
    columns: tuple[ColumnAssessment, ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Assessment:
    """Findings of a whole source or target."""

    findings: tuple[Finding, ...] = field(default_factory=tuple)


class TableAssessor(ABC):
    """Judges a source or target, and tables on it, without changing anything there.

    Used as a context manager by one thread; holds connections until closed.
    """

    @abstractmethod
    def assess(self) -> Assessment:
        """Findings about the system as a whole: connection, settings, rights. Never raises for what it can report."""

    @abstractmethod
    def assess_table(self, schema: TableSchema) -> TableAssessment:
        """Findings about one table and its columns."""

    def close(self) -> None:
        """Release connections; may be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AcceptingAssessor(TableAssessor):
    """Finds nothing and takes every column as it is; for plugins that have nothing to judge."""

    def assess(self) -> Assessment:
        """No findings."""
        return Assessment()

    def assess_table(self, schema: TableSchema) -> TableAssessment:
        """Every column whole."""
        columns = (ColumnAssessment(c.name, c.source_type, str(c.type)) for c in schema.columns)
        return TableAssessment(schema.table, tuple(columns))
