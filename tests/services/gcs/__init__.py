"""A Cloud Storage server with conditional creation and planned faults."""
