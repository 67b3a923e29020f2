"""Tables that have every version of a row as a row: from when to when it was valid, and which changes opened and ended it."""

from typing import Final

VALID_FROM: Final = "valid_from"
VALID_TO: Final = "valid_to"
IS_CURRENT: Final = "is_current"
SEQUENCE: Final = "sequence_num"
END_SEQUENCE: Final = "end_sequence_num"
"""Kinds of columns; a target gives each a name. `END_SEQUENCE` is NULL in current versions."""
VERSION_END_KEY: Final = "version_end_key"
"""The table property that names the column of the kind `END_SEQUENCE` to readers."""
FIRST_COPY: Final = 0
"""The number of versions that were not opened by a change, nor by a copy of a table that has versions."""
