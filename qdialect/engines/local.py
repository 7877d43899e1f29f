"""Engines that run a module in this process: the interpreter and ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from qdialect.errors import InputError
from qdialect.ir.context import QContext
from qdialect.ir.kept_runs import KEPT, evaluate_kept
from qdialect.plugins.tflite.dialect import TfliteNodeOp

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.interpreter import Evaluation, Kernel

    Array = NDArray[Any]
    Run = Callable[[Mapping[str, Array]], dict[str, Array]]


class LocalEngine(Protocol):
    """Something that runs modules of ours."""

    @property
    def name(self) -> str:
        """The name in `engines.table.ENGINES`."""
        ...

    def missing(self) -> str | None:
        """What is not installed, or None."""
        ...

    def open(self, module: ModuleOp, ctx: QContext, *, source: Path | None, optimize: bool) -> Run:
        """A function from inputs to outputs, both by name; `source` is the file that the
        module says the same as."""
        ...


class Numpy:
    """The reference interpreter."""

    name = "numpy"

    def missing(self) -> str | None:
        """None: it needs no packages."""
        return None

    def open(self, module: ModuleOp, ctx: QContext, *, source: Path | None, optimize: bool) -> Run:
        """The interpreter on `module`; `source` and `optimize` do not matter."""
        from qdialect.interpreter import Interpreter, output_names

        interpreter = Interpreter(ctx, module, functions=KEPT_NODES)
        names = output_names(interpreter.function())

        def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
            return dict(zip(names, interpreter.run(inputs), strict=True))

        return run


class OnnxRuntime:
    """`optimize` lets it rewrite the graph; without, the graph runs as written."""

    name = "onnxruntime"

    def missing(self) -> str | None:
        """The packages that are not installed, or None."""
        absent = [name for name in ("onnx", "onnxruntime") if find_spec(name) is None]
        return ", ".join(absent) or None

    def open(self, module: ModuleOp, ctx: QContext, *, source: Path | None, optimize: bool) -> Run:
        """A session on `source` if that is an ONNX file, else on the exported `module`."""
        from qdialect.interpreter import Interpreter, argument_names, output_names
        from qdialect.interpreter.narrow import as_laid_out, as_narrow
        from qdialect.plugins.onnx.write import OrtEngine, write_model

        function = Interpreter(ctx, module).function()
        types = dict(zip(argument_names(function), function.function_type.inputs, strict=True))
        names = output_names(function)
        if source is not None and source.suffix == ".onnx":
            engine = OrtEngine(source, optimize=optimize)
        else:
            engine = OrtEngine(write_model(module, ctx).whole(), optimize=optimize)

        def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
            for name in inputs:
                if name not in engine.inputs:
                    known = ", ".join(engine.inputs)
                    raise InputError(f"no input '{name}' (inputs: {known})", code="bad-input")
            feeds = {n: as_narrow(a, types[n]) if n in types else a for n, a in inputs.items()}
            arrays = map(as_laid_out, engine.run(feeds).values())
            return dict(zip(names, arrays, strict=True))

        return run


def _kept_node(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    return evaluate_kept(op, operands, evaluation.ctx.blobs)


def _tflite_node(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    from qdialect.plugins.tflite.engine_node import evaluate_node

    return evaluate_node(op, operands, evaluation)


KEPT_NODES: Mapping[str, Kernel] = {
    **dict.fromkeys(KEPT, _kept_node),
    TfliteNodeOp.name: _tflite_node,
}
"""Kernels of what is kept of models without being understood."""
