"""ONNX Runtime in this process, on whole models and on nodes that are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from qdialect.errors import InputError
from qdialect.ir.context import QContext

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.engines.local import Run
    from qdialect.interpreter import Evaluation
    from qdialect.plugins.onnx.dialect import NodeOp

    Array = NDArray[Any]


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


def run_kept(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """The kernel of `onnx.node`; QError (`cannot-evaluate`) where nothing runs it."""
    from qdialect.plugins.onnx.write import evaluate_node

    return evaluate_node(cast("NodeOp", op), operands, evaluation.ctx.blobs)
