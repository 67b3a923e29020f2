"""What Spark needs to open s3a:// on the test server."""

from __future__ import annotations

from tests.services.artifacts import s3a_jars


def s3a_settings(endpoint: str) -> dict[str, str]:
    """Settings, with `spark.jars` for S3A alone."""
    s3a = {
        "endpoint": endpoint,
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "access.key": "test",
        "secret.key": "test",
    }
    jars = ",".join(map(str, s3a_jars()))
    return {"spark.jars": jars, **{f"spark.hadoop.fs.s3a.{name}": value for name, value in s3a.items()}}
