"""Lit tests on the oldest and the newest xDSL that `pyproject.toml` allows.

    python -m tools.xdsl_versions

The one that is installed is left out: the test suite runs on it. Another is installed into a
folder of its own that PYTHONPATH names; one that pip cannot get is skipped, and its
reason printed. Exit code 1 if a test failed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[1]
PIP = ("-m", "pip", "install", "-qq", "--retries=1", "--timeout=15")


def allowed(text: str) -> tuple[str, str]:
    """The oldest and the newest minor version in the text of `pyproject.toml`."""
    found = re.search(r'"xdsl>=0\.(\d+),<0\.(\d+)"', text)
    if found is None:
        raise ValueError("pyproject.toml has no dependency 'xdsl>=0.A,<0.B'")
    return f"0.{found[1]}", f"0.{int(found[2]) - 1}"


def run_on(release: str, folder: Path) -> int:
    """The exit code of the lit tests on a version; 0 if pip cannot get it."""
    pip = [sys.executable, *PIP, f"--target={folder}", f"xdsl=={release}.*"]
    done = subprocess.run(pip, capture_output=True, text=True)
    if done.returncode:
        reason = next((x for x in done.stderr.splitlines() if "ERROR" in x), "pip failed")
        print(f"xDSL {release}: skipped, {reason}")
        return 0
    print(f"xDSL {release}:", flush=True)
    paths = os.pathsep.join((str(ROOT), str(folder)))
    jobs = os.environ.get("QDIALECT_TEST_JOBS", "2")
    command = [sys.executable, "-m", "pytest", "-n", jobs, "tests/test_lit.py"]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}).returncode


def main() -> int:
    """Run both; see the module."""
    codes: list[int] = []
    for release in allowed((ROOT / "pyproject.toml").read_text("utf-8")):
        if version("xdsl").startswith(f"{release}."):
            print(f"xDSL {release}: installed, the test suite runs on it")
            continue
        with tempfile.TemporaryDirectory() as folder:
            codes.append(run_on(release, Path(folder)))
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
