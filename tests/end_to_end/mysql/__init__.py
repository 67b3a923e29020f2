"""MySQL and MariaDB pipelines from server to target, in real processes."""
