"""How a net change set reaches a table, in one commit: `TableApply.apply`.

There is one way in now, `direct`: rows that go are marked in deletion vectors, rows that come are new files. Why not
Spark's MERGE is explained, with figures, in `docs/decisions/0004-how-a-net-change-set-reaches-delta.md`.
"""
