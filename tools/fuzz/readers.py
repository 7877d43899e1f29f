"""Coverage-guided fuzzing of what reads files: MLIR text, ONNX models, profiles, weights.

Seeds are damaged at random (`tests/generators/damage.py`); an input that takes the reader along a
step from line to line that no input took before is kept and damaged further. Each input must be
read, or refused with one QError, in little time and with memory in proportion to its size.
Anything else is a finding: it is made smaller and written to `--keep`.

    python -m tools.fuzz readers --reader mlir --minutes 10 --keep findings/
    python -m tools.fuzz readers --reader onnx --executions 2000 --corpus corpus/
    python -m tools.fuzz readers --reader mlir --try findings/mlir-RecursionError-0a1b2c3d.mlir
"""

# pyright: basic
from __future__ import annotations

import argparse
import hashlib
import mmap
import os
import random
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import qdialect
from qdialect.errors import QError, UsageError
from tests.support.readers import READERS, Reader
from tools.fuzz.arc_coverage import Arcs

SECONDS = 10
"""Time that one input may take."""
MEGABYTES = 1024
"""Address space beyond what the fuzzer itself needs."""
PER_BYTE, AT_LEAST = 400, 8 << 20
"""Memory at its peak: so much per byte of input, and so much anyway."""
PACKAGE = str(Path(qdialect.__file__).parent)
_STATE = struct.Struct("<qqq")


class TooLong(BaseException):
    """An input takes more time than it may; no `except Exception` swallows this."""


@dataclass
class Result:
    """What a run found out."""

    executions: int = 0
    read: int = 0
    edges: int = 0
    corpus: int = 0
    seconds: float = 0.0
    #: the largest peak of memory of an input, and over the size of the input
    peak: int = 0
    peak_ratio: float = 0.0
    findings: dict[str, str] = field(default_factory=dict)

    @property
    def hangs(self) -> int:
        return sum(name.startswith("hang") for name in self.findings)

    def __str__(self) -> str:
        rate = self.executions / max(self.seconds, 1e-9)
        return (
            f"{self.executions} executions, {rate:.0f} per second, {self.read} read; "
            f"{self.edges} edges, {self.corpus} inputs kept; "
            f"{len(self.findings) - self.hangs} crashes, {self.hangs} hangs; "
            f"peak {self.peak / 2**20:.1f} MB, {self.peak_ratio:.0f} bytes per byte of input"
        )


# -- one input ----------------------------------------------------------------------------


def _alarm(number: int, frame: Any) -> None:
    raise TooLong


class Runner:
    """Gives inputs to one reader and says what became of them."""

    def __init__(self, reader: Reader, folder: Path) -> None:
        self.reader = reader
        self.arcs = Arcs(reader.prefixes())
        self._path = folder / f"in{reader.suffix}"

    def __call__(self, data: bytes, watched: bool = True) -> str:
        """ "" for an input that is read, "refused", or what is wrong."""
        self._path.write_bytes(data)
        before = signal.signal(signal.SIGALRM, _alarm)
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            if watched:
                with self.arcs.watched():
                    self.reader.read(self._path)
            else:
                self.reader.read(self._path)
        except UsageError as error:
            return f"UsageError: {error}"
        except QError as error:
            return "refused" if error.message.strip() else "an error without words"
        except TooLong:
            return f"hang: more than {SECONDS} s"
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            return shown(error)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        return ""

    def peak(self, data: bytes) -> int:
        """Bytes that Python and numpy hold at most while the input is read."""
        tracemalloc.start()
        try:
            self(data, watched=False)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


def shown(error: BaseException) -> str:
    """The kind of an exception and the place in our code that it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if f.filename.startswith(PACKAGE)]
    at = (ours or frames)[-1]
    text = (str(error).strip().splitlines() or [""])[0][:200]
    return f"{type(error).__name__} at {Path(at.filename).name}:{at.lineno}: {text}"


def kind(finding: str) -> str:
    """What two findings of one defect have in common."""
    return finding.split(": ")[0]


# -- the loop, in a child -----------------------------------------------------------------


class Loop:
    """Damages what it keeps, and keeps what leads to new places."""

    def __init__(
        self,
        reader: Reader,
        seed: int,
        folder: Path,
        corpus: Path,
        state: mmap.mmap | None = None,
        seeds: int | None = None,
    ) -> None:
        self.result = Result()
        self._runner = Runner(reader, folder)
        self._corpus, self._state = corpus, state
        self._reader = reader
        self._kept: list[bytes] = []
        self._findings: dict[str, bytes] = {}
        self._draw = random.Random(seed)
        self._highest = 0
        self._seeds = seeds

    def run(self, executions: int, until: float) -> None:
        """Seeds, what is in the corpus folder, then damage."""
        seeds = self._reader.seeds()
        change = self._reader.damage(self._draw, seeds)
        if self._seeds is not None and self._seeds < len(seeds):
            seeds = self._draw.sample(seeds, self._seeds)
        for data in seeds[:3]:
            self._runner(data, watched=False)  # imports and tables that are made once
        self._highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        stored = sorted(self._corpus.glob(f"*{self._reader.suffix}"))
        for data in (*seeds, *(path.read_bytes() for path in stored)):
            self.one(data, seed=True)
        while self.result.executions < executions and time.monotonic() < until:
            # What was kept last leads furthest.
            recent = self._kept[-40:] if self._draw.random() < 0.5 else self._kept
            self.one(change(self._draw.choice(recent)))

    def one(self, data: bytes, seed: bool = False) -> None:
        result = self.result
        said = self._runner(data)
        result.executions += 1
        result.read += said == ""
        if said not in ("", "refused"):
            self._found(said, data)
        elif self._runner.arcs.new or seed:
            self._keep(data, stored=not seed)
        highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if highest > self._highest + (32 << 10):
            self._measure(data)
        self._highest = max(highest, self._highest)
        result.edges = len(self._runner.arcs.seen)
        self._tell()

    def _keep(self, data: bytes, stored: bool) -> None:
        self._kept.append(data)
        self.result.corpus = len(self._kept)
        if stored:
            name = hashlib.sha256(data).hexdigest()[:16]
            (self._corpus / f"{name}{self._reader.suffix}").write_bytes(data)
        self._measure(data)

    def _measure(self, data: bytes) -> None:
        peak = self._runner.peak(data)
        self.result.peak = max(self.result.peak, peak)
        if len(data) >= 1 << 12:
            self.result.peak_ratio = max(self.result.peak_ratio, peak / len(data))
        if peak > PER_BYTE * len(data) + AT_LEAST:
            self._found(f"memory: {peak} bytes for an input of {len(data)}", data)

    def _found(self, said: str, data: bytes) -> None:
        name = kind(said)
        if name in self.result.findings:
            return
        self.result.findings[name] = said
        if not name.startswith(("hang", "memory", "MemoryError")):
            data = minimized(data, lambda d: kind(self._runner(d, watched=False)) == name)
        self._findings[name] = data

    def _tell(self) -> None:
        if self._state is None:
            return
        r = self.result
        _STATE.pack_into(self._state, 0, r.executions, r.edges, r.read)

    def write_findings(self, folder: Path) -> None:
        for name, data in self._findings.items():
            write_finding(folder, self.result.findings[name], data, self._reader.suffix)


def write_finding(folder: Path, said: str, data: bytes, suffix: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    name = "".join(c if c.isalnum() else "-" for c in kind(said))[:60]
    stem = f"{name}-{hashlib.sha256(data).hexdigest()[:8]}"
    (folder / f"{stem}{suffix}").write_bytes(data)
    (folder / f"{stem}.txt").write_text(said + "\n")


def minimized(data: bytes, fails: Callable[[bytes], bool], tries: int = 600) -> bytes:
    """A shorter input on which the same fails: pieces of it go, large ones first."""
    size = len(data) // 2
    while size and tries > 0:
        at = 0
        while at < len(data) and tries > 0:
            shorter = data[:at] + data[at + size :]
            tries -= 1
            if fails(shorter):
                data = shorter
            else:
                at += size
        size //= 2
    return data


# -- the parent ---------------------------------------------------------------------------


def fuzz(
    name: str,
    seed: int = 0,
    *,
    executions: int = sys.maxsize,
    minutes: float = float("inf"),
    seeds: int | None = None,
    corpus: Path | None = None,
    keep: Path | None = None,
) -> Result:
    """Fuzz a reader in a child, which is replaced when a signal ends it.

    With `seeds` it begins with only so many of the reader's.
    """
    until = time.monotonic() + 60 * minutes
    total, began = Result(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz") as folder:
        kept = corpus or Path(folder) / "corpus"
        kept.mkdir(parents=True, exist_ok=True)
        while total.executions < executions and time.monotonic() < until:
            left = executions - total.executions
            one = _supervised(READERS[name], seed, Path(folder), kept, left, until, keep, seeds)
            total.executions += one.executions
            total.read += one.read
            total.findings |= one.findings
            total.edges = max(total.edges, one.edges)
            total.corpus = max(total.corpus, one.corpus)
            total.peak = max(total.peak, one.peak)
            total.peak_ratio = max(total.peak_ratio, one.peak_ratio)
            seed += 1_000_003
    total.seconds = time.monotonic() - began
    return total


def _supervised(
    reader: Reader,
    seed: int,
    folder: Path,
    corpus: Path,
    executions: int,
    until: float,
    keep: Path | None,
    seeds: int | None,
) -> Result:
    state = mmap.mmap(-1, _STATE.size)
    answer = folder / "answer"
    answer.unlink(missing_ok=True)
    inner = folder / "work"
    inner.mkdir(exist_ok=True)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            _limit()
            loop = Loop(reader, seed, inner, corpus, state, seeds)
            loop.run(executions, until)
            if keep is not None:
                loop.write_findings(keep)
            answer.write_text(repr(vars(loop.result)))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    died = _wait(child, state)
    if answer.exists():
        import ast

        return Result(**ast.literal_eval(answer.read_text()))
    done, edges, read = _STATE.unpack_from(state)
    if died > 0:
        raise RuntimeError("the fuzzer itself failed")
    said = "hang: in code that is not Python" if died == -signal.SIGKILL else ""
    said = said or f"{signal.Signals(-died).name}: the process ended"
    data = (inner / f"in{reader.suffix}").read_bytes()
    if keep is not None:
        write_finding(keep, said, data, reader.suffix)
    return Result(done + 1, read, edges, findings={kind(said): said})


def _wait(child: int, state: mmap.mmap) -> int:
    """The exit code; a child that does nothing for long is killed."""
    last, since = -1, time.monotonic()
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        executions = _STATE.unpack_from(state)[0]
        if executions != last:
            last, since = executions, time.monotonic()
        elif time.monotonic() - since > 20 * SECONDS:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.02)


def _limit() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = used + (MEGABYTES << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main(arguments: Sequence[str] | None = None) -> int:
    """What was run and what was found; 1 if anything was."""
    global SECONDS, MEGABYTES
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--reader", nargs="+", choices=READERS, default=list(READERS))
    parser.add_argument("--minutes", type=float, default=float("inf"), help="for each reader")
    parser.add_argument("--executions", type=int, default=sys.maxsize, help="for each reader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, help="begin with so many sound files only")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="time of one input")
    parser.add_argument("--megabytes", type=int, default=MEGABYTES, help="memory of the child")
    parser.add_argument("--corpus", type=Path, help="where inputs are kept from run to run")
    parser.add_argument("--keep", type=Path, help="where to put inputs that fail")
    parser.add_argument("--try", dest="given", type=Path, nargs="+", help="only read these")
    options = parser.parse_args(arguments)
    SECONDS, MEGABYTES = options.seconds, options.megabytes
    if options.given:
        return _try(options.reader[0], options.given)
    if options.minutes == float("inf") and options.executions == sys.maxsize:
        options.minutes = 1.0
    bad = 0
    for name in options.reader:
        corpus = options.corpus / name if options.corpus else None
        result = fuzz(
            name,
            options.seed,
            executions=options.executions,
            minutes=options.minutes,
            seeds=options.seeds,
            corpus=corpus,
            keep=options.keep / name if options.keep else None,
        )
        print(f"{name}: {result}")
        for said in result.findings.values():
            print(f"  {said}")
        bad |= bool(result.findings)
    return int(bad)


def _try(name: str, paths: Sequence[Path]) -> int:
    bad = 0
    with tempfile.TemporaryDirectory(prefix="fuzz") as folder:
        runner = Runner(READERS[name], Path(folder))
        for path in paths:
            data = path.read_bytes()
            said = runner(data)
            print(f"{path}: {said or 'read'}, peak {runner.peak(data)} for {len(data)} bytes")
            bad |= said not in ("", "refused")
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
