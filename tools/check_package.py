"""The package as others get it: the wheel in an empty environment, for each extra and Python.

    python -m tools.check_package                    no extra, onnx and report, on this Python
    python -m tools.check_package --all              every extra on every Python at hand
    python -m tools.check_package onnx mlir --pythons python3.10 python3.13

Builds sdist and wheel (the wheel from the sdist), has `twine` and `check-wheel-contents` look at
them, and installs the wheel. In each environment the commands start, what the extra is for
works, and without it the message says what to install. With `--static` also the syntax (vermin)
and the types (pyright, as each version) of the sources. One line for each, with the reason of
what failed; exit code 1 if something did. `uv`, where it is installed, makes environments
faster (`--pip`: not here).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.support.tables import table

ROOT = Path(__file__).parents[1]
NONE = "none"
VERSIONS = ("3.10", "3.11", "3.12", "3.13")
"""The Pythons that the package is for."""
USUAL = (NONE, "onnx", "report")

MODEL = """\
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""

ALWAYS = (
    "qopt --version",
    "python -m qdialect optimize m.mlir -o o.mlir -q",
    "qopt-opt m.mlir -p canonicalize -o o.mlir",
    "qopt-translate --help",
    "qopt-lsp --help",
)
EXPORT = ("qopt-translate --export-onnx m.mlir -o o.onnx", "qopt optimize o.onnx -o p.onnx -q")
REPORT = ("qopt inspect m.mlir --report r.html",)
WORKS: dict[str, tuple[str, ...]] = {
    NONE: (),
    "onnx": EXPORT,
    "mlir": ("engine mlir-runner",),
    "iree": ("engine iree",),
    "tosa": ("engine tosa-reference",),
    "torch": ("import torch",),
    "litert": ("engine litert-xnn", "qopt-translate --export-tflite m.mlir -o m.tflite"),
    "report": REPORT,
    "docs": ("python -m mkdocs --version",),
    "dask": ("python -m dask --version",),
    "solver": ("import highspy",),
    "completion": ("qopt completion bash",),
    "demo": (*EXPORT, *REPORT, "import PIL"),
    "lsp": ("import pygls",),
    "bench": (*EXPORT, *REPORT, "import matplotlib"),
    "dev": (*EXPORT, *REPORT, "python -m pytest --version", "ruff --version", "lit --version"),
}
"""What has to run, by extra; `engine E`: that E is ready; `import M`: that M can be."""


class Failed(Exception):
    """One line: what did not work."""


@dataclass(frozen=True)
class Place:
    """An environment, and the commands in it without anything of ours around it."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def run(self, line: str, cwd: Path, seconds: float) -> str:
        """What a command says; Failed with its last line."""
        name, *arguments = line.split()
        return executed([str(self.folder / "bin" / name), *arguments], cwd, seconds)


def executed(command: Sequence[str], cwd: Path, seconds: float) -> str:
    """Output of a command that succeeds; Failed with the last line of one that does not."""
    dropped = ("QDIALECT_", "PYTHON", "VIRTUAL_ENV", "CONDA")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
    environment |= {"PATH": "/usr/bin:/bin", "QDIALECT_ENGINES": str(cwd / "no-engines")}
    environment |= {"UV_NO_PROGRESS": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    what = " ".join([Path(command[0]).name, *command[1:]])
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=environment,
            capture_output=True,
            text=True,
            timeout=max(seconds, 1),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"{what}: not done after {seconds:.0f} s") from None
    except OSError as error:
        raise Failed(f"{what}: {error.strerror}") from None
    said = done.stdout + done.stderr
    if done.returncode:
        lines = [line for line in said.splitlines() if line.strip()]
        reasons = [line for line in lines if re.search(r"error|because|no solution", line, re.I)]
        reason = (reasons or lines or ["it says nothing"])[-1].strip(" │╰─▶╭├×")
        raise Failed(f"{what}: exit code {done.returncode}: {reason}"[:300])
    return said


@dataclass(frozen=True)
class Maker:
    """Makes environments, by uv or by venv and pip."""

    uv: str | None

    def environment(self, python: str, folder: Path, seconds: float) -> Place:
        by_uv = [self.uv or "", "venv", "--quiet", "--python", python, str(folder)]
        command = by_uv if self.uv else [python, "-m", "venv", str(folder)]
        executed(command, folder.parent, seconds)
        return Place(folder)

    def install(self, place: Place, what: Sequence[str], seconds: float) -> None:
        python = str(place.python)
        by_uv = [self.uv or "", "pip", "install", "--quiet", "--python", python]
        command = by_uv if self.uv else [python, "-m", "pip", "install", "--quiet", "--quiet"]
        executed([*command, *what], place.folder.parent, seconds)


@dataclass(frozen=True)
class Result:
    """One line of the report."""

    what: str
    failed: str
    seconds: float


def timed(what: str, work: Callable[[], object]) -> Result:
    """Whether something works."""
    start = time.monotonic()
    try:
        work()
        failed = ""
    except Failed as error:
        failed = str(error)
    result = Result(what, failed, time.monotonic() - start)
    print(f"check_package: {what}: {failed or 'ok'}, {result.seconds:.0f} s", file=sys.stderr)
    return result


def pythons() -> dict[str, str]:
    """The Pythons at hand, by version: on PATH, and what pyenv has."""
    found: dict[str, str] = {}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in VERSIONS:
        places = [str(p) for p in sorted(pyenv.glob(f"{version}.*/bin/python"))]
        for candidate in (*places, shutil.which(f"python{version}")):
            if candidate and version_of(candidate) == version:
                found[version] = candidate
                break
    return found


def version_of(python: str) -> str | None:
    """ "3.11" for a Python that starts."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run(
            [python, "-c", code], capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def built(maker: Maker, python: str, folder: Path) -> Path:
    """The wheel, built from the sdist; both looked at."""
    place = maker.environment(python, folder / "build", 300)
    maker.install(place, ["build", "twine", "check-wheel-contents"], 300)
    dist = folder / "dist"
    place.run(f"python -m build --outdir {dist} {ROOT}", folder, 600)
    (wheel,) = dist.glob("*.whl")
    (source,) = dist.glob("*.tar.gz")
    sizes = ", ".join(f"{path.name} {path.stat().st_size} bytes" for path in (wheel, source))
    print(f"check_package: built {sizes}", file=sys.stderr)
    place.run(f"twine check --strict {wheel} {source}", folder, 120)
    place.run(f"check-wheel-contents {wheel}", folder, 120)
    return wheel


def works(maker: Maker, python: str, extra: str, wheel: Path, seconds: float) -> None:
    """Install with an extra in an empty environment, and use it."""
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        place = maker.environment(python, folder / "env", seconds)
        what = str(wheel) if extra == NONE else f"qdialect[{extra}] @ {wheel.as_uri()}"
        maker.install(place, [what], end - time.monotonic())
        (folder / "m.mlir").write_text(MODEL, encoding="utf-8")
        for line in (*ALWAYS, *WORKS[extra]):
            kind, _, name = line.partition(" ")
            left = end - time.monotonic()
            if kind == "engine":
                said = place.run("qopt engines", folder, left)
                state = next(each for each in said.splitlines() if each.startswith(f"{name} "))
                if not state.endswith("ready"):
                    raise Failed(f"qopt engines: {' '.join(state.split())}")
            elif kind == "import":
                executed([str(place.python), "-c", f"import {name}"], folder, left)
            else:
                place.run(line, folder, left)
        if extra == NONE:
            _says_what_to_install(place, folder)


def _says_what_to_install(place: Place, folder: Path) -> None:
    try:
        place.run(EXPORT[0], folder, 60)
    except Failed as error:
        if "qdialect[onnx]" not in str(error):
            raise
    else:
        raise Failed("an ONNX model without onnx")


def syntax(maker: Maker, python: str, folder: Path) -> None:
    """No syntax or library of a newer Python than the oldest."""
    place = maker.environment(python, folder / "vermin", 300)
    maker.install(place, ["vermin"], 300)
    options = "--quiet --no-tips --violations --eval-annotations"
    place.run(f"vermin {options} --target={VERSIONS[0]}- {ROOT / 'qdialect'}", folder, 300)


def types(version: str) -> None:
    """The types, as a Python of that version sees them; libraries of this one."""
    pyright = [sys.executable, "-m", "pyright", "--pythonversion", version]
    executed([*pyright, "--pythonpath", sys.executable, "qdialect"], ROOT, 900)


def checks(options: argparse.Namespace, maker: Maker, folder: Path) -> Iterator[Result]:
    """Everything that is asked for."""
    wheels: list[Path] = []
    first = next(iter(options.pythons.values()))
    yield timed("sdist and wheel", lambda: wheels.append(built(maker, first, folder)))
    if options.static:
        yield timed(f"syntax of {VERSIONS[0]}", lambda: syntax(maker, first, folder))
        for version in VERSIONS:
            yield timed(f"types as {version}", lambda version=version: types(version))
    if not wheels:
        return
    pairs = [(v, extra) for extra in options.extras for v in options.pythons]

    def one(pair: tuple[str, str]) -> Result:
        version, extra = pair
        python = options.pythons[version]
        return timed(
            f"{version}, {extra}",
            lambda: works(maker, python, extra, wheels[0], options.seconds),
        )

    with ThreadPoolExecutor(options.jobs) as pool:
        yield from pool.map(one, pairs)


def matrix(results: Sequence[Result], extras: Sequence[str], versions: Sequence[str]) -> str:
    """Extras down, Pythons across."""
    by_name = {result.what: result for result in results}

    def cell(version: str, extra: str) -> str:
        result = by_name.get(f"{version}, {extra}")
        if result is None:
            return ""
        return "fails" if result.failed else f"ok, {result.seconds:.0f} s"

    return table(
        ("extra", *versions),
        [(extra, *(cell(version, extra) for version in versions)) for extra in extras],
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("extras", nargs="*", metavar="EXTRA", help=f"of {', '.join(WORKS)}")
    add("--all", action="store_true", help="every extra, every Python at hand, and --static")
    add("--pythons", nargs="+", metavar="PYTHON", help="interpreters (default: this one)")
    add("--static", action="store_true", help="check syntax and types for each version, too")
    add("--jobs", type=int, default=2, help="environments at a time")
    add("--seconds", type=float, default=600.0, help="for each environment")
    add("--pip", action="store_true", help="no uv")
    options = parser.parse_args(arguments)
    unknown = [extra for extra in options.extras if extra not in WORKS]
    if unknown:
        parser.error(f"no extra {unknown[0]!r}; there are {', '.join(WORKS)}")
    given = options.pythons or [sys.executable]
    named = {version: python for python in given if (version := version_of(python))}
    if broken := [python for python in given if python not in named.values()]:
        parser.error(f"{broken[0]} does not start")
    options.pythons = pythons() if options.all and not options.pythons else named
    options.extras = options.extras or list(WORKS if options.all else USUAL)
    options.static = options.static or options.all
    maker = Maker(None if options.pip else shutil.which("uv"))
    with tempfile.TemporaryDirectory() as scratch:
        results = list(checks(options, maker, Path(scratch)))
    print(matrix(results, options.extras, list(options.pythons)))
    failed = [result for result in results if result.failed]
    for result in failed:
        print(f"- {result.what}: {result.failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
