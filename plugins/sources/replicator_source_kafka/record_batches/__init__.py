"""Decodes record batches as brokers send them into columns of offsets, keys, values and headers."""
