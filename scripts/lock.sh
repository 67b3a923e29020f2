#!/usr/bin/env bash
# Writes constraints.txt: the exact versions with which the tests passed. Usage: scripts/lock.sh [ENVIRONMENT FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."
{
  echo "# Exact versions with which the tests passed; written by \`make lock\`. Installing without this file works, too."
  "${1:-.venv}/bin/python" -m pip freeze --exclude-editable --exclude pip --exclude setuptools
} > constraints.txt.new
mv constraints.txt.new constraints.txt
