#!/usr/bin/env bash
# Make (or refresh) the project's Python environment.
#
#   tools/setup.sh [EXTRA ...] [--try EXTRA ...]
#
# EXTRA names an extra of pyproject.toml (default: dev). What follows --try is
# installed if it can be: if not, a warning says so and the tests that need it skip.
#
#   QDIALECT_VENV     where the environment lives (default: .venv in the repository)
#   QDIALECT_PYTHON   the interpreter to build it with (default: the first that is new enough)
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
venv="${QDIALECT_VENV:-$root/.venv}"
oldest="3.10"

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

new_enough() {
  "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1
}

version_of() {
  "$1" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])'
}

candidates() {
  if [[ -n "${QDIALECT_PYTHON:-}" ]]; then
    printf '%s\n' "$QDIALECT_PYTHON"
  else
    printf '%s\n' python3 python3.13 python3.12 python3.11 python3.10 python
  fi
}

# Some distributions ship venv without ensurepip: take pip itself as a wheel, with
# whatever pip the machine has, and let it install itself.
add_pip() {
  local python="$1" scratch found=1
  scratch="$(mktemp -d)"
  for pip in "$python -m pip" pip3 pip; do
    # shellcheck disable=SC2086  # "$python -m pip" is three words
    if $pip download --quiet --no-deps --dest "$scratch" pip >/dev/null 2>&1; then
      local wheel
      wheel="$(find "$scratch" -name 'pip-*.whl' | head -n 1)"
      if "$venv/bin/python" "$wheel/pip" install --quiet --no-index "$wheel"; then
        found=0
        break
      fi
    fi
  done
  rm -rf "$scratch"
  return "$found"
}

create() {
  local python="$1"
  say "creating $venv with Python $(version_of "$python")"
  if "$python" -m venv --clear "$venv" >/dev/null 2>&1; then
    return 0
  fi
  if "$python" -m venv --clear --without-pip "$venv" >/dev/null 2>&1 && add_pip "$python"; then
    return 0
  fi
  "$python" -m virtualenv --quiet --clear "$venv" >/dev/null 2>&1
}

usable() {
  [[ -x "$venv/bin/python" ]] && new_enough "$venv/bin/python" \
    && "$venv/bin/python" -m pip --version >/dev/null 2>&1 || return 1
  [[ -z "${QDIALECT_PYTHON:-}" ]] \
    || [[ "$(version_of "$QDIALECT_PYTHON")" == "$(version_of "$venv/bin/python")" ]]
}

ensure_environment() {
  usable && return 0
  if [[ -e "$venv" && ! -f "$venv/pyvenv.cfg" && -n "$(ls -A "$venv")" ]]; then
    die "$venv exists and is not a Python environment; set QDIALECT_VENV to another place"
  fi
  local python seen=""
  for python in $(candidates); do
    new_enough "$python" || continue
    seen="$python"
    create "$python" && return 0
  done
  if [[ -z "$seen" ]]; then
    die "no Python $oldest or newer found; install one, or name it with QDIALECT_PYTHON"
  fi
  die "$seen cannot make an environment: install its venv module (Debian: apt-get install python3-venv) or virtualenv"
}

# What was installed from is the key: the same key means there is nothing to do.
stamp_key() {
  printf '%s %s %s\n' "$(cksum <"$root/pyproject.toml")" \
    "$(version_of "$venv/bin/python")" "$root"
}

# install_extra EXTRA [PIP OPTION ...]
install_extra() {
  local extra="$1" stamp="$venv/.qdialect-$1.stamp" key
  shift
  key="$(stamp_key)"
  if [[ -f "$stamp" && "$(cat "$stamp")" == "$key" ]]; then
    return 0
  fi
  local started=$SECONDS
  local options=(--disable-pip-version-check "$@")
  [[ -t 2 ]] || options+=(--quiet --quiet)
  say "installing qdialect[$extra]"
  "$venv/bin/python" -m pip install "${options[@]}" --editable "${root}[$extra]" >&2 || return 1
  printf '%s\n' "$key" >"$stamp"
  say "installed qdialect[$extra] in $((SECONDS - started)) s"
}

main() {
  local required=() optional=() trying="" word
  for word in "$@"; do
    case "$word" in
      --try) trying=yes ;;
      -*) die "unknown option $word" ;;
      *) if [[ -n "$trying" ]]; then optional+=("$word"); else required+=("$word"); fi ;;
    esac
  done
  [[ ${#required[@]} -gt 0 ]] || required=(dev)
  ensure_environment
  for word in "${required[@]}"; do
    install_extra "$word" || die "could not install qdialect[$word]; pip's messages are above"
  done
  [[ ${#optional[@]} -gt 0 ]] || return 0
  # What is optional must not change the versions of what is required.
  local pinned="$venv/.qdialect-versions.txt"
  "$venv/bin/python" -m pip freeze --exclude-editable >"$pinned"
  for word in "${optional[@]}"; do
    install_extra "$word" --constraint "$pinned" \
      || say "warning: no qdialect[$word]; the tests that need it will skip"
  done
}

main "$@"
