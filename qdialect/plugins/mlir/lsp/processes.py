"""The processes that read and run for the server: started ahead, asked, and ended when their
answer is not wanted any more (a parse cannot be interrupted, a process can)."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

from qdialect.children import python_child
from qdialect.errors import printable

LONGEST_LINE = 1 << 30
"""Bytes of an answer."""


class WorkerError(Exception):
    """What a request was answered with in place of a result."""


class Process:
    """A process of `worker`, which answers one request after the other."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._count = 0
        self._starting = asyncio.Lock()
        self.is_dead = False

    @property
    def is_busy(self) -> bool:
        """Whether there is a request that is not answered."""
        return bool(self._waiting)

    async def start(self) -> asyncio.subprocess.Process:
        """Start the process, unless it runs."""
        async with self._starting:
            if self._process is None:
                command, environment = python_child("qdialect.plugins.mlir.lsp.worker")
                self._process = await asyncio.create_subprocess_exec(
                    *command,
                    env=environment,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    limit=LONGEST_LINE,
                )
                self._reader = asyncio.create_task(self._read(self._process))
        return self._process

    async def request(self, method: str, **arguments: Any) -> Any:
        """The result of a request. Raises WorkerError for an error, also if the process ends."""
        process = await self.start()
        if self.is_dead or process.stdin is None:
            raise WorkerError("the process has ended")
        self._count += 1
        number = self._count
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": method, **arguments}
        try:
            process.stdin.write(json.dumps(message).encode() + b"\n")
            await process.stdin.drain()
        except OSError:
            self._waiting.pop(number, None)
            raise WorkerError("the process has ended") from None
        return await answer

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            answer = json.loads(line)
            waiting = self._waiting.pop(answer["id"], None)
            if waiting is None or waiting.done():
                continue
            if "error" in answer:
                waiting.set_exception(WorkerError(printable(answer["error"])))
            else:
                waiting.set_result(answer["result"])
        self.is_dead = True
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(WorkerError("the process has ended"))
        self._waiting.clear()
        await process.wait()

    def end(self) -> None:
        """End the process, whatever it does."""
        self.is_dead = True
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def ended(self) -> None:
        """Wait until the process is gone."""
        if self._reader is not None:
            await self._reader


class Processes:
    """The processes nobody holds."""

    def __init__(self) -> None:
        self._idle: list[Process] = []
        self._every: list[Process] = []

    def prepare(self) -> None:
        """Start one ahead, which takes half a second."""
        if not self._idle:
            process = self._new()
            self._idle.append(process)
            self._task = asyncio.create_task(process.start())

    def _new(self) -> Process:
        process = Process()
        self._every = [each for each in self._every if not each.is_dead]
        self._every.append(process)
        return process

    def take(self) -> Process:
        """One that has nothing to do. Those that are still at what nobody waits for are ended."""
        chosen: Process | None = None
        for process in self._idle:
            if process.is_busy:
                process.end()
            elif chosen is None and not process.is_dead:
                chosen = process
        rest = [each for each in self._idle if each is not chosen and not each.is_dead]
        self._idle = rest[:1]
        for process in rest[1:]:
            process.end()
        return chosen or self._new()

    def give(self, process: Process | None) -> None:
        """Back to those that nobody holds, also if it still works on something."""
        if process is not None and not process.is_dead:
            self._idle.append(process)

    async def end(self) -> None:
        """End all of them."""
        for process in self._every:
            process.end()
        for process in self._every:
            await process.ended()
