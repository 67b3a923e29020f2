"""Tests of decoding and decompressing record batches."""
