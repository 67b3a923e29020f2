"""Keeps the rows that were put aside, since the target, or the decoder on the way to it, refuses a value of theirs."""
