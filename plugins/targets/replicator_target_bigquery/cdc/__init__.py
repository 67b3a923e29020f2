"""Mode `cdc`: net changes streamed to BigQuery's change data capture, which applies them by key and sequence number.

`docs/decisions/0011-bigquery-orders-by-epoch-first.md` says why replays and superseded runs do no harm.
"""
