"""A runtime in a child process, so that its end is an error and not ours.

XNNPACK ends the process on some files (a scale of 3.9e6), and a damaged file can make any runtime
hang or eat memory: the process is asked by messages (`model_child`), each within a time limit,
and stays for the next ones.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Timer
from typing import IO, TYPE_CHECKING, Any

from qdialect.children import python_child
from qdialect.engines.model_child import receive, send
from qdialect.engines.tools import time_limit
from qdialect.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_CHATTER = ("INFO:", "VERBOSE:", "WARNING: All log messages before absl", "WARNING: Attempting")
_SHOWN, _WIDTH = 8, 400


class Child:
    """A process that answers messages; it ends with this object.

    `name` is the engine in messages, `advice` what to try when it dies.
    """

    def __init__(self, name: str, advice: Sequence[str] = ()) -> None:
        self.name, self.advice = name, tuple(advice)
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None
        self._finalizer: Any = None

    @property
    def alive(self) -> bool:
        """Whether it runs, so that what was loaded is there."""
        return self._process is not None and self._process.poll() is None

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
        self._finalizer = weakref.finalize(self, _end, process, said)
        return process

    def ask(
        self, header: Mapping[str, Any], arrays: Sequence[Array] = (), *, doing: str
    ) -> tuple[dict[str, Any], list[Array]]:
        """The answer to a message.

        InputError (`engine-failed`) where the runtime refuses (with its reason), where the process
        ends or does not answer in time; `doing` says what it did ("loading 'x.tflite'")."""
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        start = self._position()
        limit, late = time_limit(), list[bool]()

        def stop() -> None:
            late.append(True)
            process.kill()

        timer = Timer(limit, stop)
        timer.daemon = True
        timer.start()
        answer = None
        try:
            with suppress(BrokenPipeError, ConnectionResetError, ValueError):
                send(process.stdin, header, arrays)
                answer = receive(process.stdout)
        except BaseException:
            self.close()
            raise
        finally:
            timer.cancel()
        if answer is None:
            raise self._died(process, start, limit if late else None, doing)
        if "error" in answer[0]:
            raise self._refused(answer[0]["error"], start, doing)
        return answer

    def close(self) -> None:
        """End the process."""
        if self._finalizer is not None:
            self._finalizer()
        self._process = self._said = self._finalizer = None

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
        self, process: subprocess.Popen[bytes], start: int, limit: float | None, doing: str
    ) -> InputError:
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        code, lines = process.returncode, self._lines(start)
        self.close()
        if limit is not None:
            return InputError(
                f"{self.name} did not finish {doing} in {limit:g} s",
                code="engine-failed",
                notes=("QDIALECT_ENGINE_TIMEOUT=SECONDS gives it more time", *self.advice),
            )
        how = f"exit code {code}"
        if code is not None and code < 0:
            with suppress(ValueError):
                how = f"signal {-code} ({signal.Signals(-code).name})"
        return InputError(
            f"{self.name} ended with {how} {doing}",
            code="engine-failed",
            notes=(*lines[-_SHOWN:], *self.advice),
        )

    def _refused(self, error: str, start: int, doing: str) -> InputError:
        lines = [line.strip()[:_WIDTH] for line in error.splitlines() if line.strip()]
        said = [line for line in self._lines(start) if line not in lines]
        by_delegate = "XNNPACK" in error.upper()
        return InputError(
            f"{self.name} failed {doing}: {lines[0] if lines else error}",
            code="engine-failed",
            notes=(*lines[1:_SHOWN], *said[-_SHOWN:], *(self.advice if by_delegate else ())),
        )


def _end(process: subprocess.Popen[bytes], said: IO[bytes]) -> None:
    with suppress(OSError):
        process.kill()
    for stream in (process.stdin, process.stdout):
        with suppress(OSError, ValueError):
            if stream is not None:
                stream.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(10)
    said.close()
