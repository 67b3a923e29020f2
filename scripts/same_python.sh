#!/usr/bin/env bash
# Says `yes` when the environment folder was made with this Python. Usage: scripts/same_python.sh ENVIRONMENT PYTHON
origin='import os, sys; print(os.path.realpath(sys._base_executable), sys.version_info[:3])'
[ "$("$1/bin/python" -c "$origin" 2>/dev/null)" != "$("$2" -c "$origin" 2>/dev/null)" ] || echo yes
