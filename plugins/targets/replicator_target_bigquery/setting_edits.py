"""What follows when a setting of the target is edited between two runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from replicator_sdk.config import SettingEdit
from replicator_sdk.discovery.assessment import Severity

_COPY: Final = "put it back; or copy each table again, without rows that are marked as deleted: `replicator table resync NAME TABLE… --in-place`"
_ELSEWHERE: Final = SettingEdit(
    "tables of earlier runs are looked for in other datasets; one that is not there with its commit log stops (RPL-4101, RPL-4103), and is not created again",
    "put it back; or `replicator reset PIPELINE`: every table is copied there",
    Severity.ERROR,
)
_OTHER_COLUMNS: Final = SettingEdit(
    "each table of earlier runs has other columns, and stops at its next change", _COPY, Severity.ERROR, "RPL-6531"
)
_NEW_TABLES: Final = SettingEdit("tables that are created from the next run on follow it; the others stay as they are")
_NEW_COLUMNS: Final = SettingEdit("columns that are created from the next run on follow it; the others keep their form")
_LATER_ROWS: Final = SettingEdit("rows that are written from the next run on follow it; the others stay as they are")

EDITS: Final[Mapping[str, SettingEdit]] = {
    "datasetProject": _ELSEWHERE,
    "datasetName": _ELSEWHERE,
    "project": SettingEdit(
        "jobs run in the other project; without `datasetProject` tables are looked for there too, and one that is not there stops (RPL-4101)",
        "set `datasetProject` to the former project, so that the tables are found",
        Severity.WARNING,
    ),
    "stagingBucket": SettingEdit(
        "files are staged in the other bucket; what killed runs left in the former one stays there",
        "delete the folder `replicator` of the former bucket once no run uses it",
    ),
    "stagingBucketLocation": SettingEdit(
        "datasets stay where they are, and jobs are asked for elsewhere: each table stops",
        "put it back",
        Severity.ERROR,
        "RPL-6521",
    ),
    "mode": SettingEdit(
        "tables of earlier runs go on in the other mode; one stops whose columns or key the mode does not take (RPL-6531, RPL-6701)",
        _COPY,
        Severity.WARNING,
    ),
    "softDeletes": _OTHER_COLUMNS,
    "kafkaKeyFieldName": _OTHER_COLUMNS,
    "arrays": _NEW_COLUMNS,
    "json": _NEW_COLUMNS,
    "partitionBy": _NEW_TABLES,
    "partitionType": _NEW_TABLES,
    "requirePartitionFilter": _NEW_TABLES,
    "timestampPartitionFieldName": _NEW_TABLES,
    "maxStaleness": _NEW_TABLES,
    "encryptionKeyName": _NEW_TABLES,
    "labels": _NEW_TABLES,
    "outOfRange": _LATER_ROWS,
    "upsertEnabled": _LATER_ROWS,
    "deleteEnabled": _LATER_ROWS,
    "stagingTablePrefix": SettingEdit(
        "changes are staged in tables of other names; the former tables stay, and their rows expire"
    ),
}
