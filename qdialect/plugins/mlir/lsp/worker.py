"""The process that reads and verifies; `python -m qdialect.plugins.mlir.lsp.worker`.

It answers requests, one JSON object a line, in order, on its standard streams:

    {"id": 1, "method": "check", "text": "...", ...}   ->   {"id": 1, "result": [...]}
    {"id": 2, "method": "hover", "chunk": 0, ...}      ->   {"id": 2, "error": "..."}

It keeps the chunks of the text it read last. Where one does not parse, the text that last did is
read in its place when types are asked for. The server ends the process when it wants no answer.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any, BinaryIO

from xdsl.ir import SSAValue

from qdialect.errors import QError, crash_report, culprit
from qdialect.plugins.mlir.lsp import hover
from qdialect.plugins.mlir.lsp.checks import Chunk, Options, Problem, split
from qdialect.plugins.mlir.lsp.text import carried

Answer = dict[str, Any]


class Read:
    """A chunk of the text, and what was there when it last parsed."""

    def __init__(self, start: int, chunk: Chunk, earlier: str, options: Options) -> None:
        self.start = start
        self.chunk = chunk
        self._earlier, self._options = earlier, options

    @cached_property
    def typed(self) -> Chunk:
        """The chunk, or the earlier one if this one does not parse."""
        if self.chunk.places.module is not None or not self._earlier:
            return self.chunk
        return Chunk(self._earlier, self._options)

    def earlier(self, offset: int) -> int | None:
        """Where in the typed chunk the character at `offset` of the file was; None if it is
        new."""
        return carried(offset - self.start, self.chunk.text, self.typed.text)


class Worker:
    """The state of the process."""

    def __init__(self) -> None:
        self.reads: list[Read] = []
        self.options = Options()
        self._known: dict[tuple[str, Options], Chunk] = {}

    # -- checking ----------------------------------------------------------------

    def check(self, text: str, earlier: list[str], options: Answer) -> list[Answer]:
        """Read a text. For each chunk: where it starts, whether it parses, its problems, and how
        many ops it has. `earlier` are chunks that parsed, for those that do not."""
        self.options = Options(**options)
        known, self._known = self._known, {}
        self.reads = []
        for number, (start, part) in enumerate(split(text)):
            key = part, self.options
            chunk = known.get(key) or Chunk(part, self.options)
            self._known[key] = chunk
            before = earlier[number] if number < len(earlier) else ""
            self.reads.append(Read(start, chunk, before, self.options))
        return [
            {
                "start": each.start,
                "parses": each.chunk.places.module is not None,
                "problems": [_shifted(p, each.start) for p in each.chunk.problems],
                "ops": len(each.chunk.places.spans),
            }
            for each in self.reads
        ]

    def findings(self, tool: str, boundary: bool, most_ops: int) -> list[Answer]:
        """Warnings of all chunks."""
        return [
            _shifted(problem, each.start)
            for each in self.reads
            for problem in each.chunk.findings(tool, boundary, most_ops)
        ]

    # -- what things are; offsets are from the start of the file --------------------

    def _read_at(self, offset: int) -> Read:
        return max((each for each in self.reads if each.start <= offset), key=lambda r: r.start)

    def _values_at(self, offset: int) -> tuple[Sequence[SSAValue], Chunk]:
        """The values that the name at `offset` defines; none if it is new or nothing is known."""
        read = self._read_at(offset)
        place = read.earlier(offset)
        values = () if place is None else read.typed.places.values.get(place, ())
        return values, read.typed

    def value(self, offset: int, index: int | None, name: str) -> str:
        """The value that the name at `offset` defines."""
        values, chunk = self._values_at(offset)
        return hover.value_text(values, index, name, chunk.ctx) if values else ""

    def types(self, offsets: list[int]) -> list[str]:
        """The types of the values that the names at `offsets` define (-1: none); empty if not
        known."""
        found = (self._values_at(each)[0] if each >= 0 else () for each in offsets)
        return [", ".join(str(value.type) for value in values) for values in found]

    def op(self, offset: int, name: str) -> str:
        """The op whose name is at `offset`; without types only what its class says."""
        read = self._read_at(offset)
        place = read.earlier(offset)
        op = None if place is None else read.typed.places.op_at(place)
        known = () if op is None else (hover.name_of(op), hover.name_of(op).partition(".")[2])
        if op is None or name not in known:
            return hover.op_name_text(name, read.typed.ctx)
        stated = read.typed.places.stated.get(op)
        return hover.op_text(op, stated, read.typed.ctx)

    def type(self, offset: int, text: str) -> str:
        """A type or an attribute by itself, or an alias for one, in the text around `offset`."""
        from qdialect.plugins.mlir.lsp.attributes import parse_attribute

        chunk = self._read_at(offset).chunk
        found = parse_attribute(text, chunk.text, chunk.ctx)
        return "" if found is None else hover.type_text(found, text)

    def pass_(self, name: str) -> str:
        """The documentation of a pass."""
        return hover.pass_text(name)

    # -- completion --------------------------------------------------------------

    def ops(self) -> list[tuple[str, str]]:
        """The names of all ops, with the first line of their documentation where that is
        loaded."""
        from qdialect.plugins.mlir.lsp.vocabulary import op_names

        return op_names()

    def attributes(self, name: str) -> list[tuple[str, str]]:
        """The attributes that an op declares, with what they must be."""
        from qdialect.plugins.mlir.lsp.vocabulary import attributes_of

        return attributes_of(name)


def _shifted(problem: Problem, by: int) -> Answer:
    found = asdict(problem)
    found["start"] += by
    found["end"] += by
    found["notes"] = [(note.text, note.start + by, note.end + by) for note in problem.notes]
    return found


def answer(worker: Worker, request: Answer) -> Answer:
    """The answer to one request: its result, or what went wrong."""
    number = request.pop("id", None)
    method: Callable[..., Any] | None = getattr(worker, str(request.pop("method", "")), None)
    try:
        if method is None:
            raise QError("no such method")
        return {"id": number, "result": method(**request)}
    except QError as error:
        return {"id": number, "error": error.message}
    except RecursionError:
        return {"id": number, "error": "nested too deeply"}
    except Exception as error:
        return {"id": number, "error": f"internal error: {culprit(error)}; {crash_report(error)}"}


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until there are no more."""
    worker = Worker()
    for line in requests:
        answers.write(json.dumps(answer(worker, json.loads(line))).encode() + b"\n")
        answers.flush()


def main() -> None:
    """The process. What anything prints goes to standard error, not among the answers."""
    # Collecting the cyclic IR again and again is lost time.
    gc.set_threshold(200_000, 20, 100)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
