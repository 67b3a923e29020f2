"""Postgres types as standard types, and their text form as Arrow columns.

Snapshot and log both deliver values in the form their type's output function writes, under the settings of
`types.session`. One function per standard type turns that text into Arrow, so a row has the same value whichever way it
came.
"""
