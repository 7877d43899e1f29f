#!/usr/bin/env bash
# Build the wheel and the sdist, and install the wheel in an empty environment for each extra.
#
#   tools/check_package.sh [EXTRA ...]     default: no extra, then onnx and report
#
# In each environment the commands start, what the extra is for works, and without it the
# message says what to install. The wheel that is installed is built from the sdist.
#
#   QDIALECT_PYTHON   the interpreter (default: python3)
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
python="${QDIALECT_PYTHON:-python3}"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

say() { printf 'check_package: %s\n' "$*" >&2; }

environment() {
  "$python" -m venv "$1" 2>/dev/null || "$python" -m virtualenv --quiet "$1"
}

say "building"
environment "$scratch/build"
"$scratch/build/bin/python" -m pip install --quiet --quiet build
"$scratch/build/bin/python" -m build --outdir "$scratch/dist" "$root" >"$scratch/build.log" 2>&1 \
  || { cat "$scratch/build.log" >&2; exit 1; }
wheel="$(find "$scratch/dist" -name '*.whl')"
say "built $(basename "$wheel"), $(wc -c <"$wheel") bytes, and $(find "$scratch/dist" -name '*.tar.gz' -exec basename {} \;)"

cat >"$scratch/m.mlir" <<'MLIR'
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
MLIR

# works NAME BIN: what an environment with the extra NAME has to do
works() {
  local name="$1" bin="$2"
  "$bin/qopt" --version
  "$bin/python" -m qdialect optimize "$scratch/m.mlir" -o "$scratch/o.mlir" -q
  "$bin/qopt-opt" "$scratch/m.mlir" -p canonicalize -o "$scratch/o.mlir"
  "$bin/qopt-translate" --help >/dev/null
  case "$name" in
    onnx) "$bin/qopt-translate" --export-onnx "$scratch/m.mlir" -o "$scratch/o.onnx" ;;
    report)
      if "$bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        "$bin/qopt" inspect "$scratch/m.mlir" --report "$scratch/r.html" >/dev/null
      fi
      ;;
    none)
      if "$bin/qopt-translate" --export-onnx "$scratch/m.mlir" -o "$scratch/o.onnx" \
        2>"$scratch/said"; then
        say "an ONNX model without onnx"
        return 1
      fi
      grep -q 'qdialect\[onnx\]' "$scratch/said" || { cat "$scratch/said" >&2; return 1; }
      ;;
  esac
}

[[ $# -gt 0 ]] || set -- none onnx report
for name in "$@"; do
  started=$SECONDS
  environment "$scratch/$name"
  what="$wheel"
  [[ "$name" == none ]] || what="${wheel}[$name]"
  "$scratch/$name/bin/python" -m pip install --quiet --quiet "$what"
  (cd "$scratch" && works "$name" "$scratch/$name/bin")
  say "extra $name: works, $((SECONDS - started)) s"
done
