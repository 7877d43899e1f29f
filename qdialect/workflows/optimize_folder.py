"""Optimizing every model in a folder, on all cores, once: `qopt optimize FOLDER -o OUTFOLDER`.

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
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from qdialect.children import python_child
from qdialect.errors import InputError, UsageError, Where
from qdialect.ir.weights import save_text

SUFFIXES = (".onnx", ".pt2", ".mlir", ".mlirbc")
RECORDS = ".qopt"
_SECONDS_TO_END = 5
"""What is ended removes what is temporary first."""

Watch = Callable[[Iterable["Future[Outcome]"], int], Iterable["Future[Outcome]"]]


@dataclass(frozen=True)
class Outcome:
    """What became of one model."""

    name: str
    code: int
    messages: str
    seconds: float
    cached: bool = False


@dataclass
class FolderOptimization:
    """One run over the models in `source`, with results in `target`.

    `module` is run with `flags` to optimize a model; `files` are the files that flags name, which a
    result depends on.
    """

    source: Path
    target: Path
    module: str
    flags: Sequence[str]
    files: Sequence[Path] = ()
    jobs: int | None = None
    """How many processes run at a time; None: one for each core."""
    use_records: bool = True
    """Whether a model that has not changed since is left alone."""

    def __post_init__(self) -> None:
        self._common = blake2b(digest_size=32)
        self._running: set[subprocess.Popen[str]] = set()
        self._stopped = False

    def run(self, watch: Watch = lambda futures, total: futures) -> list[Outcome]:
        """Optimize the models that have changed; what became of each, by name.

        `watch` gets the finished ones as they come, and how many there are.
        """
        if self.target.resolve() == self.source.resolve():
            raise UsageError("the results would replace the models: -o must be another folder")
        names = self._names()
        self._prepare(names)
        outcomes: list[Outcome] = []
        with ThreadPoolExecutor(self.jobs or len(_cores())) as pool:
            try:
                futures: list[Future[Outcome]] = [pool.submit(self._one, name) for name in names]
                finished = watch(as_completed(futures), len(futures))
                outcomes += (future.result() for future in finished)
            except BaseException:
                self._stop()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return sorted(outcomes, key=lambda outcome: outcome.name)

    # -- what there is to do -----------------------------------------------------

    def _names(self) -> list[str]:
        inside = self.target.resolve()
        found: list[str] = []
        for path in sorted(self.source.rglob("*")):
            is_model = path.suffix in SUFFIXES and path.is_file()
            if is_model and not path.resolve().is_relative_to(inside):
                found.append(path.relative_to(self.source).as_posix())
        if not found:
            raise InputError(
                f"no model in this folder ({', '.join(SUFFIXES)})", where=Where(str(self.source))
            )
        stores: dict[Path, str] = {}
        for name in found:
            if _result_name(name) != name and _result_name(name) in found:
                raise InputError(
                    f"'{name}' and '{_result_name(name)}' would have one result",
                    where=Where(str(self.source)),
                )
            if Path(_result_name(name)).suffix != ".onnx":
                other = stores.setdefault(Path(name).with_suffix(""), name)
                if other != name:
                    raise InputError(
                        f"'{other}' and '{name}' would have their weights in one file",
                        where=Where(str(self.source)),
                    )
        return found

    def _prepare(self, names: Sequence[str]) -> None:
        try:
            (self.target / RECORDS).mkdir(parents=True, exist_ok=True)
            for name in names:
                (self.target / name).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError(
                f"cannot write here: {reason}",
                where=Where(str(self.target)),
                code="unwritable-file",
            ) from None
        for part in (*_installed(), *_code(), *self.flags):
            self._common.update(os.fsencode(part) + b"\0")
        for path in self.files:
            self._common.update(_digest(path))

    # -- one model ---------------------------------------------------------------

    def _one(self, name: str) -> Outcome:
        began = time.monotonic()
        path, result = self.source / name, self.target / _result_name(name)
        digest = blake2b(os.fsencode(name), digest_size=16).hexdigest()
        record = self.target / RECORDS / f"{digest}.json"
        key = self._key(path)
        if self.use_records and _holds(record, key, result):
            return Outcome(name, 0, "", time.monotonic() - began, cached=True)
        code, messages = self._process(path, result)
        if code == 0:
            files = {result.name: result, **_beside(result)}
            made = {part: _digest(file).hex() for part, file in files.items()}
            save_text(record, json.dumps({"model": name, "key": key, "results": made}) + "\n")
        return Outcome(name, code, messages, time.monotonic() - began)

    def _key(self, path: Path) -> str:
        hasher = self._common.copy()
        hasher.update(_digest(path))
        for other in _beside(path).values():
            hasher.update(os.fsencode(other.name) + b"\0" + _digest(other))
        return hasher.hexdigest()

    def _process(self, path: Path, result: Path) -> tuple[int, str]:
        if self._stopped:
            return 1, "stopped"
        command, environment = python_child(
            self.module, *self.flags, f"-o={result}", "--", str(path)
        )
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        self._running.add(process)
        try:
            _, messages = process.communicate()
        finally:
            self._running.discard(process)
        if process.returncode < 0:
            messages += f"error: the process was ended by signal {-process.returncode}\n"
        return process.returncode, messages

    def _stop(self) -> None:
        self._stopped = True
        running = tuple(self._running)
        for process in running:
            process.terminate()
        for process in running:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_SECONDS_TO_END)
            process.kill()


def _cores() -> Sequence[int]:
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


def _result_name(name: str) -> str:
    """The name of the result of a model: programs of PyTorch are written as ONNX."""
    path = Path(name)
    return path.with_suffix(".onnx").as_posix() if path.suffix == ".pt2" else name


def _beside(model: Path) -> dict[str, Path]:
    """The files in or below the folder of a model that it names, as it does its weights: by their
    paths from there."""
    data = model.read_bytes()
    return {
        other.relative_to(model.parent).as_posix(): other
        for other in sorted(model.parent.rglob("*"))
        if other.suffix not in SUFFIXES and os.fsencode(other.name) in data and other.is_file()
    }


def _holds(record: Path, key: str, result: Path) -> bool:
    """Whether the record has this key, and the results are those it tells of."""
    try:
        known = json.loads(record.read_text(encoding="utf-8"))
        if known["key"] != key:
            return False
        made: dict[str, str] = known["results"]
        return bool(made) and all(
            _digest(result.parent / name).hex() == digest for name, digest in made.items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, InputError):
        return False
