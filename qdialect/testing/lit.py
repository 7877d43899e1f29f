"""Runs lit tests inside this process: no start-up time for each command.

    @pytest.mark.parametrize("path", discover(Path(__file__).parent), ids=lambda path: path.name)
    def test_lit(path: Path, tmp_path: Path) -> None:
        run_file(path, tmp_path)

The files stay plain lit tests (`lit lit_tests` runs them too).  Our own commands and
`filecheck` are called as functions; any other command is started as a process.
Understood: RUN lines with continuations, pipes, `&&`, `;`, redirections, `not`,
`%s %S %p %t %T %%`, and REQUIRES with the features of `available_features`.

    python -m qdialect.testing.lit FILE...      run files
    python -m qdialect.testing.lit not CMD...   LLVM's `not`, for plain lit
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

_RUN = re.compile(r"RUN:\s?(.*)$")
_REQUIRES = re.compile(r"REQUIRES:\s*(.*)$")
_OPERATORS = {"|", "&&", "||", ";"}
_REDIRECTION = re.compile(r"(&>|[12]?>>|[12]?>&[12]|[12]?>|<)")

Command = Callable[[Sequence[str]], int]


class LitFailure(Exception):
    """A test failed; the text says which command and what it wrote."""


@dataclass
class Step:
    """One command of a pipeline with its redirections."""

    words: list[str] = field(default_factory=list[str])
    redirections: list[tuple[str, str]] = field(default_factory=list["tuple[str, str]"])


@dataclass
class Streams:
    """What a command reads, and what it has written."""

    stdin: bytes = b""
    stdout: bytes = b""
    stderr: bytes = b""


def discover(root: Path) -> list[Path]:
    """All test files in a folder and those inside it."""
    return sorted(path for path in root.rglob("*.mlir") if "RUN:" in path.read_text("utf-8"))


def available_features() -> set[str]:
    """What REQUIRES may name here."""
    found = {module for module in ("onnx", "onnxruntime") if find_spec(module)}
    found |= {tool for tool in ("mlir-opt", "iree-opt") if shutil.which(tool)}
    return found


def missing_features(path: Path) -> list[str]:
    """The features a test requires that are not available."""
    required = [
        feature.strip()
        for line in path.read_text("utf-8").splitlines()
        if (found := _REQUIRES.search(line))
        for feature in found.group(1).split(",")
    ]
    return sorted(set(required) - available_features())


def run_lines(text: str) -> list[str]:
    """The commands of a test, continuations joined."""
    lines: list[str] = []
    open_line = False
    for line in text.splitlines():
        found = _RUN.search(line)
        if found is None:
            continue
        part = found.group(1).strip()
        continues = part.endswith("\\")
        part = part.removesuffix("\\").rstrip()
        lines[-1:] = [f"{lines[-1]} {part}"] if open_line else [*lines[-1:], part]
        open_line = continues
    return lines


def run_file(path: Path, workdir: Path) -> None:
    """Run one test; LitFailure when a line does not end with 0."""
    path = path.resolve()
    temporary = str(workdir / f"{path.stem}.tmp")
    substitutions = {
        "%%": "%",
        "%s": str(path),
        "%S": str(path.parent),
        "%p": str(path.parent),
        "%t": temporary,
        "%T": str(workdir),
    }
    for line in run_lines(path.read_text("utf-8")):
        expanded = re.sub(r"%[%sSptT](?![A-Za-z{])", lambda m: substitutions[m.group()], line)
        run_command_line(expanded, line)


def run_command_line(expanded: str, shown: str) -> None:
    """Run pipelines joined by `&&` or `;`."""
    words = _split(expanded)
    steps: list[Step] = [Step()]
    code, streams = 0, Streams()
    for word in [*words, ";"]:
        if word == "|":
            steps.append(Step())
        elif word in _OPERATORS:
            code, streams = _run_pipeline(steps)
            if code:
                break
            steps = [Step()]
        else:
            _add_word(steps[-1], word)
    if code:
        messages = (streams.stdout + streams.stderr).decode(errors="replace")
        raise LitFailure(f"exit code {code} from\n  {shown}\n{messages}")


def _split(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    for word in lexer:
        # shlex breaks `2>&1` and `2>file` into pieces; put them together again.
        split_number = word in (">", ">>", ">&", "<") and words[-1:] in (["1"], ["2"])
        if split_number or (words and re.fullmatch(r"[12]?>&", words[-1])):
            words[-1] += word
        else:
            words.append(word)
    return words


def _add_word(step: Step, word: str) -> None:
    if step.redirections and step.redirections[-1][1] == "":
        step.redirections[-1] = (step.redirections[-1][0], word)
    elif re.fullmatch(r"[12]?>&[12]", word):
        step.redirections.append((word, "-"))
    elif _REDIRECTION.fullmatch(word):
        step.redirections.append((word, ""))
    else:
        step.words.append(word)


def _run_pipeline(steps: Sequence[Step]) -> tuple[int, Streams]:
    """Run the commands one after another; the worst exit code counts (as with lit)."""
    code, passed, errors = 0, b"", b""
    for step in steps:
        streams = Streams(stdin=passed)
        for operator, name in step.redirections:
            if operator == "<":
                streams.stdin = Path(name).read_bytes()
        result = _run_step(step.words, streams)
        _redirect(step, streams)
        passed = streams.stdout
        errors += streams.stderr
        code = code or result
    return code, Streams(stdout=passed, stderr=errors)


def _redirect(step: Step, streams: Streams) -> None:
    for operator, name in step.redirections:
        if operator == "2>&1":
            # In order only per stream: what went to stderr comes first.
            streams.stdout, streams.stderr = streams.stderr + streams.stdout, b""
        elif operator in (">", "1>", ">>", "1>>", "&>"):
            data = streams.stdout + (streams.stderr if operator == "&>" else b"")
            with Path(name).open("ab" if ">>" in operator else "wb") as file:
                file.write(data)
            streams.stdout = b""
        elif operator in ("2>", "2>>"):
            with Path(name).open("ab" if ">>" in operator else "wb") as file:
                file.write(streams.stderr)
            streams.stderr = b""


def _run_step(words: Sequence[str], streams: Streams) -> int:
    name, *arguments = words
    if name == "not":
        if arguments[:1] == ["--crash"]:
            return 0 if _run_step(arguments[1:], streams) == 70 else 1
        return 0 if _run_step(arguments, streams) in (1, 2) else 1
    command = _in_process(name)
    if command is None:
        return _run_process(words, streams)
    with _captured(streams):
        try:
            return command(arguments)
        except SystemExit as stop:
            return stop.code if isinstance(stop.code, int) else int(stop.code is not None)


def _in_process(name: str) -> Command | None:
    if name == "qopt-opt":
        from qdialect.cli.opt import main
    elif name == "qopt-translate":
        from qdialect.cli.translate import main
    elif name == "qopt":
        from qdialect.cli.qopt import main
    elif name.lower() == "filecheck":
        return _filecheck
    else:
        return None
    return main


def _filecheck(arguments: Sequence[str]) -> int:
    from filecheck.finput import FInput
    from filecheck.matcher import Matcher
    from filecheck.options import parse_argv_options
    from filecheck.parser import Parser

    options = parse_argv_options(["filecheck", *arguments])
    content = (
        sys.stdin.read() if options.input_file == "-" else Path(options.input_file).read_text()
    )
    return Matcher(options, FInput("<stdin>", content), Parser.from_opts(options)).run()


def _run_process(words: Sequence[str], streams: Streams) -> int:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        list(words),
        input=streams.stdin,
        capture_output=True,
        check=False,
        timeout=120,
        env={**os.environ, "PATH": path},
    )
    streams.stdout, streams.stderr = done.stdout, done.stderr
    return done.returncode


@contextmanager
def _captured(streams: Streams):
    before = sys.stdin, sys.stdout, sys.stderr
    out, err = io.BytesIO(), io.BytesIO()
    wrappers = [io.TextIOWrapper(b, "utf-8", newline="", write_through=True) for b in (out, err)]
    sys.stdin = io.TextIOWrapper(io.BytesIO(streams.stdin), "utf-8", newline="")
    sys.stdout, sys.stderr = wrappers
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
        for wrapper in wrappers:
            wrapper.flush()
        streams.stdout, streams.stderr = out.getvalue(), err.getvalue()


def main(argv: Sequence[str]) -> int:
    """The script: `not`, or test files."""
    if argv[:1] == ["not"]:
        crash = argv[1:2] == ["--crash"]
        code = subprocess.run(argv[2 if crash else 1 :], check=False).returncode
        return 0 if (code == 70 if crash else code in (1, 2)) else 1
    failures = 0
    with tempfile.TemporaryDirectory() as workdir:
        for name in argv:
            try:
                run_file(Path(name), Path(workdir))
                print(f"PASS {name}")
            except LitFailure as failure:
                failures += 1
                print(f"FAIL {name}: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
