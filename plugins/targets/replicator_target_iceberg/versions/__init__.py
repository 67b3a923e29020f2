"""The mode `scd2`: every version of a row as a row, with the time from which and to which it was valid.

Current and ended versions are in files of their own: the names of those of ended ones begin with `PAST`.
"""
