"""A Cloud Storage server with conditional creation of every form of upload, and planned faults."""
