"""What computes the values: the numpy interpreter, or ONNX Runtime.

An engine runs one sample of an instrumented module and yields its values with their
keys. Both hold no more than one sample's values; ONNX Runtime, which returns all values
asked for at once, is asked for them in slices.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from qdialect.errors import UsageError
from qdialect.interpreter import Interpreter
from qdialect.interpreter.kernels import KEPT_NODES
from qdialect.interpreter.values import declared_shape
from qdialect.ir.context import QContext
from qdialect.quantizer.profile.collector import Observation
from qdialect.quantizer.profile.instrument import Instrumented

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from xdsl.ir import Operation, SSAValue

    Arrays = Mapping[str, NDArray[Any]]

EngineName = Literal["numpy", "onnxruntime"]
ENGINES: tuple[EngineName, ...] = ("numpy", "onnxruntime")

SLICE_BYTES = 256 << 20
"""How many bytes of values ONNX Runtime is asked for at once."""


class Engine(Protocol):
    """Runs one sample; the values observed, every key once."""

    def run(self, inputs: Arrays) -> Iterator[Observation]:
        """Run one sample; `inputs` by argument name."""
        ...


def open_engine(name: str, plan: Instrumented, ctx: QContext) -> Engine:
    """The engine called `name` for a module; it may change `plan.module`."""
    if name == "numpy":
        return NumpyEngine(plan, ctx)
    if name == "onnxruntime":
        return RuntimeEngine(plan, ctx)
    raise UsageError(f"no engine '{name}' ({', '.join(ENGINES)})", code="unknown-engine")


class NumpyEngine:
    """The reference interpreter; values are taken as ops compute them."""

    def __init__(self, plan: Instrumented, ctx: QContext) -> None:
        self._arguments = plan.arguments
        self._keys = {entry.value: entry.keys for entry in plan.measured}
        self._function = plan.function.sym_name.data
        self._seen: list[Observation] = []
        self._interpreter = Interpreter(
            ctx, plan.module, listeners=[self._listen], functions=KEPT_NODES
        )

    def run(self, inputs: Arrays) -> Iterator[Observation]:
        for name, keys in self._arguments.items():
            yield keys, inputs[name]
        self._seen.clear()
        self._interpreter.run(inputs, self._function)
        yield from self._seen
        self._seen.clear()

    def _listen(self, op: Operation, results: Sequence[NDArray[Any]]) -> None:
        for value, array in zip(op.results, results, strict=True):
            if (keys := self._keys.get(value)) is not None:
                self._seen.append((keys, array))


class RuntimeEngine:
    """The float model in ONNX Runtime, with the observed values as its outputs."""

    def __init__(self, plan: Instrumented, ctx: QContext, slice_bytes: int = SLICE_BYTES) -> None:
        from qdialect.plugins.onnx.write import OrtEngine, write_model
        from qdialect.plugins.onnx.write.engine import first_part

        self._arguments = plan.arguments
        names = plan.return_observed()
        keys = [entry.keys for entry in plan.measured]
        sizes = [_bytes(entry.value) for entry in plan.measured]
        model = write_model(plan.module, ctx).whole()
        self._parts: list[tuple[OrtEngine, list[tuple[str, ...]]]] = []
        for start, end in slices(sizes, slice_bytes):
            part = first_part(model, names[start:end])
            self._parts.append((OrtEngine(part, optimize=False), keys[start:end]))

    def run(self, inputs: Arrays) -> Iterator[Observation]:
        for name, keys in self._arguments.items():
            yield keys, inputs[name]
        for engine, keys in self._parts:
            results = engine.run({name: inputs[name] for name in engine.inputs})
            yield from zip(keys, results.values(), strict=True)


def slices(sizes: Sequence[int], limit: int) -> Iterator[tuple[int, int]]:
    """Consecutive intervals whose sizes add up to no more than `limit`, or of one."""
    start, total = 0, 0
    for index, size in enumerate(sizes):
        if index > start and total + size > limit:
            yield start, index
            start, total = index, 0
        total += size
    if start < len(sizes):
        yield start, len(sizes)


def _bytes(value: SSAValue) -> int:
    """The size of a value, as if unknown extents were 1 and unknown ranks 0."""
    return 4 * math.prod(max(extent, 1) for extent in declared_shape(value.type))
