#!/usr/bin/env bash
# Makes a fresh machine ready: Java for Spark, a Python environment, and the downloads of demo and tests.
# Usage: scripts/setup.sh [ENVIRONMENT FOLDER]. Running it again costs seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${1:-.venv}

say() { printf '%s\n' "$*" >&2; }

# Installs Debian packages, as root or through sudo.
install_packages() {
  local as=()
  command -v apt-get >/dev/null || { say "Missing: $*. Install them with this machine's package manager, then run make setup again."; exit 1; }
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { say "Missing: $*. Run as root: apt-get install $*"; exit 1; }
    as=(sudo)
  fi
  say "Installing $*"
  "${as[@]}" apt-get update -qq
  "${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# The major version of a Java program; 0 when there is none.
java_major() {
  local version
  version=$("$1" -version 2>&1 | sed -nE 's/.*version "([0-9]+).*/\1/p' | head -n 1) || true
  echo "${version:-0}"
}

# Spark 4.1 runs on Java 17 and 21.
java=${JAVA_HOME:+$JAVA_HOME/bin/}java
[ "$(java_major "$java")" -ge 17 ] || install_packages openjdk-17-jre-headless
[ "$(java_major "$java")" -ge 17 ] || { say "JAVA_HOME=${JAVA_HOME:-} is older than 17; unset it or point it at Java 17 or 21."; exit 1; }

# Spark's start scripts call ps.
command -v ps >/dev/null || install_packages procps

# The newest of the supported Pythons that can make an environment.
python=
find_python() {
  local name
  for name in "${PYTHON:-python3}" python3.13 python3.12 python3.11; do
    if "$name" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
      python=$name
      return 0
    fi
  done
  return 1
}
find_python || { install_packages python3 python3-venv && find_python; } || { say "Python 3.11, 3.12 or 3.13 is needed; set PYTHON to it."; exit 1; }

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
say "Installing the Python packages into $venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --use-pep517 --constraint constraints.txt --editable '.[all,test]' --editable ./sdk

say "Fetching Spark's Delta jars, and the PostgreSQL servers Kafka and BigQuery emulators of the tests"
"$venv/bin/python" -m tests.services.artifacts >&2
"$venv/bin/python" -m tests.services.kafka_setup >&2
"$venv/bin/python" -m tests.services.bigquery_setup >&2
"$venv/bin/python" -m tests.services.spark_classes >&2

# They come from Debian's packages, unpacked into the cache; the keyring has the signatures they are checked against.
if command -v apt-get >/dev/null; then
  [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || install_packages debian-archive-keyring
  say "Fetching the MySQL and MariaDB servers of the tests"
  "$venv/bin/python" -m tests.services.mysql_programs >&2
else
  say "There is no apt-get here: the tests with MySQL and MariaDB cannot run on this machine."
fi
say "Ready: $venv/bin/replicator"
