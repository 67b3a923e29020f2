"""The mode `scd2`: each version of a row is a row of its own, which says from when to when it was valid ([why](docs/decisions/0105-every-version-of-a-row.md)).

The current version of a key is the row whose column of the number that ended it is NULL (`VERSION_END_KEY`). Current and ended versions are
in different files, so that finding a current version opens no file of ended ones.
"""
