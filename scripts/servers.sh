#!/usr/bin/env bash
# Fetches the servers that the tests start: PostgreSQL, MySQL, MariaDB, Kafka, an S3 server, emulators of BigQuery,
# Azure, and a Cloud Storage server.
# Usage: scripts/servers.sh [ENVIRONMENT FOLDER], after setup.sh. Running it again costs seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${1:-.venv}
. scripts/install_packages.sh

say "Fetching the PostgreSQL servers, Kafka, the S3 and Cloud Storage servers and the emulators of BigQuery and Azure"
"$venv/bin/python" -m tests.services.artifacts >&2
"$venv/bin/python" -m tests.services.kafka.setup >&2
"$venv/bin/python" -m tests.services.bigquery.setup >&2
"$venv/bin/python" -m tests.services.s3.setup >&2
"$venv/bin/python" -m tests.services.azure.setup >&2
"$venv/bin/python" -m tests.services.gcs.setup >&2
"$venv/bin/python" -m tests.services.spark.class_archive >&2

# The page is tested in Debian's browser; no other can be had from the package registries.
command -v chromium >/dev/null || install_packages chromium fonts-dejavu-core

# They come from Debian's packages, unpacked into the cache; the keyring has the signatures they are checked against.
if command -v apt-get >/dev/null; then
  [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || install_packages debian-archive-keyring
  say "Fetching the MySQL and MariaDB servers of the tests, and Prometheus"
  "$venv/bin/python" -m tests.services.mysql.programs >&2
  "$venv/bin/python" -m tests.services.prometheus.programs >&2
else
  say "There is no apt-get here: the tests with MySQL, MariaDB and Prometheus cannot run on this machine."
fi
