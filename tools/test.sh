#!/usr/bin/env bash
# Set up, check style and types, run the tests. All of it is non-interactive.
#
#   tools/test.sh              everything
#   tools/test.sh ARG ...      only pytest, with these arguments
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"
venv="${QDIALECT_VENV:-$root/.venv}"

tools/setup.sh dev --try mlir iree torch litert
bin="$venv/bin"

# The environment's commands first; mlir-opt is in the wheel's own folder.
for folder in "$venv"/lib/python*/site-packages/mlir/bin "$bin"; do
  [[ -d "$folder" ]] && PATH="$(cd "$folder" && pwd):$PATH"
done
export PATH

# The reference model of TOSA has an environment of its own: its pins clash with ours.
export QDIALECT_ENGINES="${QDIALECT_ENGINES:-$venv/engines}"
if ! "$bin/qopt" engines | grep -q '^tosa-reference .* ready$'; then
  "$bin/qopt" engines install tosa-reference \
    || printf 'warning: no tosa-reference; the tests that need it will skip\n' >&2
fi

# The report is tested in a browser; CI's machine may be given one, others are left alone.
if [[ "${CI:-}" == true && $EUID -eq 0 ]] && ! command -v chromium >/dev/null \
  && command -v apt-get >/dev/null; then
  { apt-get -qq update && apt-get -qq install -y --no-install-recommends chromium; } >/dev/null \
    || printf 'warning: no chromium; the tests that need it will skip\n' >&2
fi

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
check "source" "$bin/python" -m tools.docs source
[[ ${#failed[@]} -eq 0 ]] || printf 'FAILED: %s\n' "${failed[@]}"
if [[ "${CI:-}" == true ]]; then
  check "package" "$bin/python" -m tools.check_package
fi
check "other xDSL" "$bin/python" -m tools.xdsl_versions
check "pytest" "$bin/python" -m pytest -n "${QDIALECT_TEST_JOBS:-2}"
[[ ${#failed[@]} -eq 0 ]]
