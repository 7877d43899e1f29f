"""`qopt optimize FOLDER -o OUTFOLDER`: every model in a folder, on all cores, once.

Each model is a process of its own, so that one that crashes takes no other with it. What was
done is kept in `OUTFOLDER/.qopt`, one record for each model, under a key of all that the
result depends on: the bytes of the model and of the files it names, the options and the
files they name, our code, and the versions of all installed packages. A model whose record
has the key, and whose results are as the record says, is left alone.

Records and results are written whole or not at all, and a record says what the results
are: runs on one folder at the same time do work twice, never wrong.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path

from qdialect.cli.files import save_text
from qdialect.cli.flags import Arguments, write_json
from qdialect.cli.terminal import OK, WRONG_INPUT, duration, progress
from qdialect.errors import InputError, UsageError, Where

SUFFIXES = (".onnx", ".mlir", ".qmod")
RECORDS = ".qopt"
#: flags that name files, which a result depends on
_FILES = ("input", "numerics-inputs", "prices")
_OURS = ("o", "jobs", "no-cache", "json")


@dataclass(frozen=True)
class Outcome:
    """What became of one model."""

    name: str
    code: int
    told: str
    seconds: float
    cached: bool = False


class Folder:
    """One run over the models in `source`."""

    def __init__(self, args: Arguments, source: Path, target: Path) -> None:
        self._args = args
        self._source = source
        self._target = target
        self._flags = _flags(args)
        self._common = blake2b(digest_size=32)
        self._running: set[subprocess.Popen[str]] = set()
        self._stopped = False

    def run(self) -> int:
        """Optimize what is not yet; returns the exit code."""
        if self._target.resolve() == self._source.resolve():
            raise UsageError("the results would replace the models: -o must be another folder")
        names = self._names()
        self._prepare(names)
        began = time.monotonic()
        jobs = self._args.integer("jobs", len(_cores()), minimum=1)
        outcomes: list[Outcome] = []
        with ThreadPoolExecutor(jobs) as pool:
            try:
                futures: list[Future[Outcome]] = [pool.submit(self._one, name) for name in names]
                finished = progress(as_completed(futures), len(futures), "models")
                outcomes += (future.result() for future in finished)
            except BaseException:
                self._stop()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        outcomes.sort(key=lambda outcome: outcome.name)
        self._report(outcomes, time.monotonic() - began)
        return WRONG_INPUT if any(outcome.code != OK for outcome in outcomes) else OK

    # -- what there is to do -----------------------------------------------------

    def _names(self) -> list[str]:
        inside = self._target.resolve()
        found: list[str] = []
        for path in sorted(self._source.rglob("*")):
            is_model = path.suffix in SUFFIXES and path.is_file()
            if is_model and not path.resolve().is_relative_to(inside):
                found.append(path.relative_to(self._source).as_posix())
        if not found:
            raise InputError(
                f"no model in this folder ({', '.join(SUFFIXES)})", where=Where(str(self._source))
            )
        stores: dict[Path, str] = {}
        for name in found:
            if Path(name).suffix != ".onnx":
                other = stores.setdefault(Path(name).with_suffix(""), name)
                if other != name:
                    raise InputError(
                        f"'{other}' and '{name}' would have their weights in one file",
                        where=Where(str(self._source)),
                    )
        return found

    def _prepare(self, names: Sequence[str]) -> None:
        try:
            (self._target / RECORDS).mkdir(parents=True, exist_ok=True)
            for name in names:
                (self._target / name).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError(
                f"cannot write here: {reason}",
                where=Where(str(self._target)),
                code="unwritable-file",
            ) from None
        for part in (*_installed(), *_code(), *self._flags):
            self._common.update(part.encode() + b"\0")
        for flag in _FILES:
            for name in self._args.texts(flag):
                self._common.update(_digest(Path(name)))

    # -- one model ---------------------------------------------------------------

    def _one(self, name: str) -> Outcome:
        began = time.monotonic()
        path, result = self._source / name, self._target / name
        record = (
            self._target / RECORDS / f"{blake2b(name.encode(), digest_size=16).hexdigest()}.json"
        )
        key = self._key(path)
        if not self._args.switch("no-cache") and _holds(record, key, result):
            return Outcome(name, OK, "", time.monotonic() - began, cached=True)
        code, told = self._process(path, result)
        if code == OK:
            made = {part.name: _digest(part).hex() for part in _results(result)}
            save_text(record, json.dumps({"model": name, "key": key, "results": made}) + "\n")
        return Outcome(name, code, told, time.monotonic() - began)

    def _key(self, path: Path) -> str:
        hasher = self._common.copy()
        data = path.read_bytes()
        hasher.update(blake2b(data, digest_size=32).digest())
        for other in sorted(path.parent.rglob("*")):
            # Weights beside a model are named in it.
            if other.suffix not in SUFFIXES and other.name.encode() in data and other.is_file():
                hasher.update(other.name.encode() + b"\0" + _digest(other))
        return hasher.hexdigest()

    def _process(self, path: Path, result: Path) -> tuple[int, str]:
        command = [sys.executable, "-m", "qdialect.cli.qopt", "optimize", *self._flags]
        if self._stopped:
            return WRONG_INPUT, "stopped"
        process = subprocess.Popen(
            [*command, f"-o={result}", "--", str(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        self._running.add(process)
        try:
            _, told = process.communicate()
        finally:
            self._running.discard(process)
        if process.returncode < 0:
            told += f"error: the process was ended by signal {-process.returncode}\n"
        return process.returncode, told

    def _stop(self) -> None:
        self._stopped = True
        for process in tuple(self._running):
            process.terminate()

    # -- what is said --------------------------------------------------------------

    def _report(self, outcomes: Sequence[Outcome], seconds: float) -> None:
        quiet = self._args.switch("quiet")
        if self._args.switch("json"):
            write_json([asdict(outcome) for outcome in outcomes])
        for outcome in outcomes:
            if outcome.code != OK:
                told = outcome.told.strip() or f"error: exit code {outcome.code}"
                sys.stderr.write(f"{outcome.name}: failed\n{told}\n")
            elif self._args.given("remarks") and not outcome.cached:
                sys.stderr.write(f"{outcome.name}: done\n{outcome.told}")
            elif not quiet and not outcome.cached:
                sys.stderr.write(f"{outcome.name}: done in {duration(outcome.seconds)}\n")
        failed = sum(outcome.code != OK for outcome in outcomes)
        cached = sum(outcome.cached for outcome in outcomes)
        if not quiet or failed:
            sys.stderr.write(
                f"{len(outcomes)} models in {duration(seconds)}: "
                f"{len(outcomes) - failed - cached} optimized, {cached} as they were, "
                f"{failed} failed\n"
            )


def _flags(args: Arguments) -> list[str]:
    """The flags of the command line, for the process of a model."""
    flags: list[str] = []
    for name, values in args.flags.items():
        if name in _OURS:
            continue
        for value in values:
            if value is True:
                flags.append(f"--{name}")
            elif name == "remarks":
                raise UsageError("--remarks=FILE is for one model")
            else:
                flags.append(f"--{name}={'false' if value is False else value}")
    return flags


def _cores() -> Sequence[int]:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return range(os.cpu_count() or 1)


def _installed() -> Iterator[str]:
    """All installed packages with their versions: ours, what we use, plug-ins."""
    from importlib.metadata import distributions

    yield sys.version
    yield from sorted({f"{found.name} {found.version}" for found in distributions()})


def _code() -> Iterator[str]:
    """Our files: a version may still change."""
    package = Path(__file__).parents[1]
    for path in sorted(package.rglob("*.py")):
        state = path.stat()
        yield f"{path.relative_to(package)} {state.st_size} {state.st_mtime_ns}"


def _digest(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            hasher = blake2b(digest_size=32)
            while block := file.read(1 << 20):
                hasher.update(block)
        return hasher.digest()
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            f"cannot open: {reason}", where=Where(str(path)), code="unreadable-file"
        ) from None


def _results(result: Path) -> list[Path]:
    """The files of a result that are there."""
    beside = result.with_suffix(".safetensors")
    weights = Path(f"{result}.data") if result.suffix == ".onnx" else beside
    return [path for path in (result, weights) if path.is_file()]


def _holds(record: Path, key: str, result: Path) -> bool:
    """Whether the record has this key, and the results are those it tells of."""
    try:
        known = json.loads(record.read_text(encoding="utf-8"))
        if known["key"] != key:
            return False
        made: dict[str, str] = known["results"]
        return bool(made) and all(
            _digest(result.with_name(name)).hex() == digest for name, digest in made.items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, InputError):
        return False
