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

# The first supported Python that can make an environment; only the one in PYTHON where that is set.
supported='import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))'
python=
find_python() {
  local name
  for name in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
    if "$name" -c "$supported" 2>/dev/null; then
      python=$name
      return 0
    fi
  done
  return 1
}
# Debian's own python3 comes without what makes environments.
find_python || { install_packages python3 python3-venv && find_python; } || { say "Python 3.11, 3.12 or 3.13 with venv is needed; set PYTHON to it."; exit 1; }

# An environment whose making was interrupted is made again, and one of another interpreter when PYTHON says which.
origin='import os, pip, sys; print(os.path.realpath(sys._base_executable), "%d.%d.%d" % sys.version_info[:3])'
wanted=$("$python" -c "${origin/pip, /}")
found=$("$venv/bin/python" -c "$origin" 2>/dev/null) || found=
if [ -n "$found" ] && [ "$found" != "$wanted" ] && [ -z "${PYTHON:-}" ]; then
  say "$venv was made with $found and is kept; to make it again with another Python: PYTHON=$python make setup"
elif [ "$found" != "$wanted" ]; then
  say "Making $venv with $wanted"
  "$python" -m venv --clear "$venv"
fi
say "Installing the Python packages into $venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --use-pep517 --constraint constraints.txt --editable '.[all,test]' --editable ./sdk

say "Fetching Spark's Delta jars"
"$venv/bin/python" -m tests.services.artifacts delta >&2
say "Ready: $venv/bin/replicator"
