"""A runtime in a child process, so that its end is an error and not ours.

XNNPACK and ONNX Runtime end the process on some files (a scale of 3.9e6, a sequence of no
elements), and a damaged file can make any runtime hang or eat memory: the process is asked by
messages (`model_child`), each within limits of time and memory, and stays for the next ones.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count
from math import inf
from threading import RLock
from typing import IO, Any

from qdialect.children import python_child
from qdialect.engines.model_child import receive, send
from qdialect.errors import InputError
from qdialect.plugins.common.tools import memory_limit, time_limit

NUMBERS = count()
"""Numbers of models, which no two models share."""
_CHATTER = ("INFO:", "VERBOSE:", "WARNING: All log messages before absl", "WARNING: Attempting")
_NO_MEMORY = re.compile("bad_alloc|allocate|MemoryError")
"""Words in an error of a runtime that has too little memory."""
_SHOWN, _WIDTH = 8, 400


class Refusal(InputError):
    """The runtime raised an error and still runs; `reason` is the first line of it."""

    reason = ""


class Child:
    """A process that answers messages; it ends with this object, and starts anew when it died.

    `name` is the engine in messages, `advice` what to try when it dies. Several threads may ask.
    """

    def __init__(self, name: str, advice: Sequence[str] = ()) -> None:
        self.name, self.advice = name, tuple(advice)
        #: models that nobody asks again
        self.forgotten: list[int] = []
        self.lock = RLock()
        self._loaded: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None
        self._finalizer: Any = None

    @property
    def alive(self) -> bool:
        """Whether it runs, so that what was loaded is there."""
        return self._process is not None and self._process.poll() is None

    def has(self, number: int) -> bool:
        """Whether it runs, and a model of that number is loaded."""
        if not self.alive:
            self.close()
        return number in self._loaded

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None:
            return self._process
        said = tempfile.TemporaryFile(prefix="qdialect-")  # noqa: SIM115 (closed with the process)
        command, environment = python_child("qdialect.engines.model_child")
        usual = {"OPENBLAS_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "1"}
        environment = {**usual, **environment, "PYTHONUNBUFFERED": "1"}
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise InputError(
                f"engine {self.name} cannot be started: {error.strerror}", code="engine-failed"
            ) from None
        self._process, self._said = process, said
        self._finalizer = weakref.finalize(self, _end, process, said, os.getpid())
        return process

    def ask(
        self, header: Mapping[str, Any], values: Sequence[Any] = (), *, doing: str
    ) -> tuple[dict[str, Any], list[Any]]:
        """The answer to a message.

        InputError (`engine-failed`): `Refusal` where the runtime refuses, else where the process
        ends or does not answer in time (`seconds` in the header, at most what is allowed in all);
        `doing` says what it did ("loading 'x.tflite'")."""
        seconds = min(time_limit(), header.get("seconds", inf))
        limits = {"seconds": seconds, "memory": memory_limit()}
        with self.lock:
            process = self._started()
            assert process.stdin is not None and process.stdout is not None
            forget = self.forgotten[:]
            del self.forgotten[: len(forget)]
            start, answer = self._position(), None
            try:
                with suppress(BrokenPipeError, ConnectionResetError):
                    send(process.stdin, {**header, **limits, "forget": forget}, values)
                    answer = receive(process.stdout)
            except BaseException:
                self.close()
                raise
            self._loaded.difference_update(forget)
            if answer is None:
                raise self._died(process, start, doing, seconds)
            if "error" in answer[0]:
                raise self._refused(answer[0]["error"], start, doing)
            if header["do"] == "load":
                self._loaded.add(header["id"])
            return answer

    def close(self) -> None:
        """End the process."""
        if self._finalizer is not None:
            self._finalizer()
        self._process = self._said = self._finalizer = None
        self._loaded.clear()

    def _position(self) -> int:
        return 0 if self._said is None else os.fstat(self._said.fileno()).st_size

    def _lines(self, start: int) -> list[str]:
        """What the runtime said since, without what it always says."""
        if self._said is None:
            return []
        self._said.seek(start)
        text = self._said.read().decode("utf-8", "replace")
        lines = [line.strip()[:_WIDTH] for line in text.splitlines()]
        return [line for line in lines if line and not line.startswith(_CHATTER)]

    def _died(
        self, process: subprocess.Popen[bytes], start: int, doing: str, seconds: float
    ) -> InputError:
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        code, notes = process.returncode, self._lines(start)[-_SHOWN:]
        self.close()
        how = f"exit code {code}"
        if code == -signal.SIGALRM:
            how = f"no end after {seconds:g} s"
            notes.append("QDIALECT_ENGINE_TIMEOUT=SECONDS gives it more time")
        elif code is not None and code < 0:
            with suppress(ValueError):
                how = signal.Signals(-code).name
        return self._abort(how, doing, notes)

    def _abort(self, how: str, doing: str, notes: Sequence[str]) -> InputError:
        text = f"{self.name} aborts on this model ({how}, {doing})"
        return InputError(text, code="engine-failed", notes=(*notes, *self.advice))

    def _refused(self, error: str, start: int, doing: str) -> InputError:
        lines = [line.strip()[:_WIDTH] for line in error.splitlines() if line.strip()] or [error]
        said = [line for line in self._lines(start) if line not in lines]
        if _NO_MEMORY.search(lines[0]):
            self.close()
            how = f"out of memory: {memory_limit() / 1e9:.3g} GB"
            more = "QDIALECT_ENGINE_MEMORY=GB gives it more memory"
            return self._abort(how, doing, (lines[0], more))
        by_delegate = "XNNPACK" in error.upper()
        refusal = Refusal(
            f"{self.name} failed {doing}: {lines[0]}",
            code="engine-failed",
            notes=(*lines[1:_SHOWN], *said[-_SHOWN:], *(self.advice if by_delegate else ())),
        )
        refusal.reason = lines[0]
        return refusal


def _end(process: subprocess.Popen[bytes], said: IO[bytes], owner: int) -> None:
    if owner != os.getpid():
        return
    with suppress(OSError):
        process.kill()
    for stream in (process.stdin, process.stdout):
        with suppress(OSError, ValueError):
            if stream is not None:
                stream.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(10)
    said.close()
