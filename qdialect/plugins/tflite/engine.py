"""LiteRT (TFLite), in a child process: three engines that compute three different functions.

`litert-xnn` is what LiteRT runs by default: XNNPACK on every op that it takes, the optimized
kernels on the rest. `litert-opt` is the optimized kernels on all, `litert-ref` the reference ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from qdialect.engines.child import NUMBERS, Child
from qdialect.errors import InputError, Where
from qdialect.ir.context import QContext
from qdialect.plugins.tflite.file.from_module import module_file
from qdialect.plugins.tflite.file.read import read_file
from qdialect.plugins.tflite.file.write import file_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]
    Run = Callable[[Mapping[str, Array]], dict[str, Array]]

DEFAULT = "litert-xnn"
SUFFIXES = (".tflite", ".circle")
_LEAST_RUNS = 1


@dataclass(frozen=True)
class Port:
    """An input or output: its name and number in the file, the shape LiteRT has for it now and
    that of its signature (-1: only a run tells), and numpy's name of its type."""

    name: str
    index: int
    shape: tuple[int, ...]
    signature: tuple[int, ...]
    type: str

    @staticmethod
    def of(data: Mapping[str, Any]) -> Port:
        """Of what the child says."""
        shape, signature = tuple(data["shape"]), tuple(data["signature"])
        return Port(data["name"], data["index"], shape, signature or shape, data["type"])

    def checked(self, array: Array) -> Array:
        """An array as the input takes it; InputError (`bad-input`).

        The codes of u8 and i8 are told apart; so are floats and integers."""
        name = array.dtype.name
        if name != self.type and (name, self.type) != ("float32", "bfloat16"):
            raise InputError(f"input '{self.name}' is {name}, not {self.type}", code="bad-input")
        fits = len(array.shape) == len(self.signature) and all(
            expected in (-1, given)
            for expected, given in zip(self.signature, array.shape, strict=True)
        )
        if not fits:
            shown = ["?" if n == -1 else n for n in self.signature]
            raise InputError(
                f"input '{self.name}' has shape {list(array.shape)}, not "
                f"[{', '.join(map(str, shown))}]",
                code="bad-input",
            )
        return array


@dataclass(frozen=True)
class Node:
    """An op that LiteRT has: its name, and the numbers of its tensors; `delegated` where XNNPACK
    runs it."""

    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    delegated: bool = False


class InChild:
    """A model that a runtime in a child process has loaded.

    `source` is a file or its bytes, `engine` one of the three of LiteRT, or `onnxruntime`.
    `child` may have other models too. InputError (`engine-failed`).
    """

    def __init__(
        self,
        source: Path | bytes,
        engine: str = DEFAULT,
        *,
        threads: int = 1,
        optimize: bool = True,
        child: Child | None = None,
        name: str | None = None,
    ) -> None:
        self.engine, self.threads = engine, threads
        self.name = name or (f"'{source.name}'" if isinstance(source, Path) else "the model")
        self.child = new_child(engine) if child is None else child
        self._id, given = next(NUMBERS), source
        if isinstance(source, Path):
            if not source.is_file():
                raise InputError("no such file", where=Where(str(source)), code="unreadable-file")
            given = str(source.absolute())
        ask = {"do": "load", "id": self._id, "engine": engine}
        ask |= {"threads": threads, "optimize": optimize}
        try:
            found = self.child.ask(ask, [given], doing=f"loading {self.name}")[0]
        except InputError as error:
            if isinstance(source, Path) and error.where is None:
                error.where = Where(str(source))
            raise
        self.inputs = tuple(map(Port.of, found["inputs"]))
        self.outputs = tuple(map(Port.of, found["outputs"]))
        self.signatures: Sequence[Mapping[str, Any]] = found["signatures"]

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """The outputs in the order of the file, of inputs in that order; InputError."""
        if len(arrays) != len(self.inputs):
            raise InputError(
                f"{self.name} takes {len(self.inputs)} inputs, not {len(arrays)}", code="bad-input"
            )
        taken = [port.checked(array) for port, array in zip(self.inputs, arrays, strict=True)]
        header, found = self.child.ask(
            {"do": "run", "id": self._id}, taken, doing=f"running {self.name}"
        )
        return [
            _widened(array) if form["name"] == "bfloat16" else array
            for array, form in zip(found, header["arrays"], strict=True)
        ]

    def nanoseconds(
        self,
        arrays: Sequence[Array] = (),
        *,
        runs: int = _LEAST_RUNS,
        warm: int = 1,
        at_least: float = 0.0,
    ) -> list[int]:
        """What invocations take: processor time of the thread, or of the clock where there are
        several. At least so many `runs`, and so many nanoseconds (`at_least`) in all, after
        some that do not count (`warm`). `arrays` may be left out after a first time."""
        ask = {
            "do": "time",
            "id": self._id,
            "runs": runs,
            "warm": warm,
            "nanoseconds": int(at_least),
            "threads": self.threads,
        }
        taken = [port.checked(array) for port, array in zip(self.inputs, arrays, strict=False)]
        return self.child.ask(ask, taken, doing=f"timing {self.name}")[0]["nanoseconds"]

    def nodes(self) -> list[Node] | None:
        """The ops of the main subgraph and which of them XNNPACK runs; None where LiteRT does not
        say (it is asked by a private method, which lists delegates after the ops)."""
        ask = {"do": "nodes", "id": self._id}
        found = self.child.ask(ask, doing=f"asking about {self.name}")[0]["nodes"]
        if found is None:
            return None
        nodes = [Node(n["op"], tuple(n["inputs"]), tuple(n["outputs"])) for n in found]
        ops = [node for node in nodes if node.op != "DELEGATE"]
        delegates = [node for node in nodes if node.op == "DELEGATE"]
        taken = _behind(ops, delegates)
        return [
            Node(node.op, node.inputs, node.outputs, index in taken)
            for index, node in enumerate(ops)
        ]

    def close(self) -> None:
        """Forget the model."""
        self.child.forgotten.append(self._id)


def _widened(array: Array) -> Array:
    """bf16 as its bits in f32."""
    return (array.astype(np.uint32) << 16).view(np.float32)


def _behind(ops: Sequence[Node], delegates: Sequence[Node]) -> set[int]:
    """The numbers of the ops that delegates replace: from what one gives back to what it takes."""
    maker = {tensor: index for index, op in enumerate(ops) for tensor in op.outputs}
    found: set[int] = set()
    for delegate in delegates:
        border, todo = set(delegate.inputs), list(delegate.outputs)
        while todo:
            tensor = todo.pop()
            index = maker.get(tensor)
            if tensor in border or index is None or index in found:
                continue
            found.add(index)
            todo += ops[index].inputs
    return found


def new_child(engine: str) -> Child:
    """A process for models of an engine."""
    if engine == "onnxruntime":
        return Child("ONNX Runtime")
    title = f"LiteRT ({engine})"
    if engine == "litert-ref":
        return Child(title)
    return Child(title, ("try --engine litert-ref",))


class _Litert:
    """What the three engines have in common."""

    name = DEFAULT

    def missing(self) -> str | None:
        """The package, where it is not installed."""
        return None if installed() else "ai-edge-litert"

    def open(self, module: ModuleOp, ctx: QContext, *, source: Path | None, optimize: bool) -> Run:
        """LiteRT on `source` where that is its file, else on the file of `module`, which is in
        the `tflite` dialect. Inputs go by the names of the function's arguments, of the file's
        tensors or of its signature."""
        from qdialect.interpreter import Interpreter, argument_names, output_names

        function = Interpreter(ctx, module).function()
        if source is not None and source.suffix in SUFFIXES:
            model = InChild(loadable(source), self.name, name=f"'{source.name}'")
        else:
            model = InChild(written(module, ctx), self.name)
        return by_name(model, argument_names(function), output_names(function))


def by_name(model: InChild, names: Sequence[str], results: Sequence[str]) -> Run:
    """A model as a function from inputs to outputs by the names of a function's arguments and
    results; inputs also go by the names of the file's tensors or of its signature."""
    from qdialect.interpreter.narrow import as_laid_out

    positions = _positions(model, names)
    known = ", ".join(names)

    def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
        given: dict[int, Array] = {}
        for name, array in inputs.items():
            if name not in positions:
                raise InputError(f"no input '{name}' (inputs: {known})", code="bad-input")
            given[positions[name]] = np.asarray(array)
        for index, name in enumerate(names):
            if index not in given:
                raise InputError(f"input '{name}' is missing (inputs: {known})", code="bad-input")
        arrays = model.run([given[index] for index in range(len(names))])
        return dict(zip(results, map(as_laid_out, arrays), strict=True))

    return run


class LitertXnn(_Litert):
    """XNNPACK on what it takes, the optimized kernels on the rest: LiteRT's default."""

    name = "litert-xnn"


class LitertOpt(_Litert):
    """The optimized kernels of LiteRT."""

    name = "litert-opt"


class LitertRef(_Litert):
    """The reference kernels of LiteRT."""

    name = "litert-ref"


@cache
def installed() -> bool:
    """Whether LiteRT is there."""
    return find_spec("ai_edge_litert") is not None


def _positions(model: InChild, names: Sequence[str]) -> dict[str, int]:
    """The number of an input by every name it has; those of the function come first."""
    if len(names) != len(model.inputs):
        raise InputError(
            f"{model.name} has {len(model.inputs)} inputs, the function {len(names)}",
            code="engine-function",
        )
    found = {name: index for index, name in enumerate(names)}
    numbers = {port.index: index for index, port in enumerate(model.inputs)}
    for signature in model.signatures:
        if not signature["subgraph"]:
            for name, tensor in signature["inputs"].items():
                if tensor in numbers:
                    found.setdefault(name, numbers[tensor])
    for index, port in enumerate(model.inputs):
        found.setdefault(port.name, index)
    return found


def loadable(file: Path) -> Path | bytes:
    """A file as LiteRT loads it: a Circle file as the bytes of a TFLite file that says the same."""
    if file.suffix != ".circle":
        return file
    return file_bytes(replace(read_file(file), kind="tflite", version=3))


def written(module: ModuleOp, ctx: QContext) -> bytes:
    """The bytes of the file that a module of the `tflite` dialect is."""
    return file_bytes(module_file(module, ctx))
