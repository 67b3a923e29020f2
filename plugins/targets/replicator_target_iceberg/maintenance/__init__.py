"""What tables need from time to time: small files put together, old snapshots and what only they need deleted, and what killed runs left."""
