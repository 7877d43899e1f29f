#!/usr/bin/env bash
# Set up, check style and types, run the tests. All of it is non-interactive.
#
#   tools/test.sh              everything
#   tools/test.sh ARG ...      only pytest, with these arguments
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"
venv="${QDIALECT_VENV:-$root/.venv}"

tools/setup.sh dev --try mlir iree tosa
bin="$venv/bin"
PATH="$(cd "$bin" && pwd):$PATH"
export PATH

for mlir_opt in "$venv"/lib/python*/site-packages/mlir/bin/mlir-opt; do
  [[ -x "$mlir_opt" ]] && export QDIALECT_MLIR_OPT="${QDIALECT_MLIR_OPT:-$mlir_opt}"
done

if [[ $# -gt 0 ]]; then
  exec "$bin/python" -m pytest "$@"
fi

failed=()
check() {
  local name="$1"
  shift
  printf '== %s\n' "$name"
  "$@" || failed+=("$name")
}

check "shellcheck" "$bin/shellcheck" tools/*.sh .ci/run
check "ruff check" "$bin/ruff" check .
check "ruff format" "$bin/ruff" format --check .
check "pyright" "$bin/pyright" --pythonpath "$bin/python"
[[ ${#failed[@]} -eq 0 ]] || printf 'FAILED: %s\n' "${failed[@]}"
check "pytest" "$bin/python" -m pytest -n "${QDIALECT_TEST_JOBS:-2}"
[[ ${#failed[@]} -eq 0 ]]
