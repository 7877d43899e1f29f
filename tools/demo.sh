#!/usr/bin/env bash
# The main job on real input: see tools/demo.py. Needs Python 3.10 or newer, nothing else.
#
#   tools/demo.sh [--configs NAME ...] [--images N] [--rounds N] [--json FILE]
#   tools/demo.sh --files FOLDER      only the models and images that the tutorials use
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
venv="${QDIALECT_VENV:-$root/.venv}"

"$root/tools/setup.sh" demo
PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}" exec "$venv/bin/python" -m tools.demo "$@"
