#!/usr/bin/env bash
# Makes a fresh machine ready for the commands: Java for Spark, a Python environment, and Delta's jars.
# Usage: scripts/setup.sh [ENVIRONMENT FOLDER]. Running it again costs seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${1:-.venv}
. scripts/install_packages.sh

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

say "Fetching Spark's Delta jars"
"$venv/bin/python" -m tests.services.artifacts delta >&2
say "Ready: $venv/bin/replicator"
