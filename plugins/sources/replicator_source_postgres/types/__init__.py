"""Postgres types as standard types, and their text form as Arrow columns.

Snapshot and log both deliver values in the form that their type's output function writes, under the settings of
`types.session`. One function for each standard type converts that text to Arrow, so a row has the same values whether the
snapshot or the log delivers it.
"""
