"""The lease: one run at a time may write, under an epoch of its own."""
