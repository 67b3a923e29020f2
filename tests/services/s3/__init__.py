"""An S3 server with conditional writes and planned faults."""
