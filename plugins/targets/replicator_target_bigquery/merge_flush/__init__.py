"""Mode `merge-flush` (seed 000): changes are streamed into intermediate tables and merged at intervals.

The door is `consumer`; `settings` and `record` are what the other modes' modules know of it.
"""
