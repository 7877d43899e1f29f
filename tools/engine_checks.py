"""One program here and in an engine: bit for bit where that is promised, else how far apart."""

# pyright: basic
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from qdialect.api import Model
from qdialect.cli.engine_runs import InEngine, integer_model, ready_model
from qdialect.cli.execution import open_engine
from qdialect.context import QContext
from qdialect.dialects.quant import quant_element
from qdialect.errors import QError
from qdialect.interpreter import Interpreter, argument_names
from qdialect.validation.translation import drawn

TIES = 0.02
"""Share of codes that floats of 32 bits may put on the other side of a tie."""
SAMPLES = 2


class Apart(Exception):
    """An engine gives other numbers than the interpreter."""

    check = "engine"


def check_engine(module: ModuleOp, ctx: QContext, engine: str) -> int:
    """How many results were compared; 0 where the engine or the path to it refuses the program.

    ONNX Runtime runs the program as it is, in floats between casts: codes may be a step apart
    in few elements. The others run integers, bit for bit.
    """
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    if any(n < 0 for kind in function.function_type.inputs for n in kind.get_shape()):
        return 0
    return _runtime(module, ctx) if engine == "onnxruntime" else _integers(module, ctx, engine)


def _runtime(module: ModuleOp, ctx: QContext) -> int:
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    names = argument_names(function)
    try:
        run = open_engine(Model(module.clone(), ctx.clone()), "onnxruntime")
    except QError:
        return 0
    kinds = function.function_type.outputs.data
    count = 0
    for given in drawn(function, SAMPLES):
        wanted, numbers = run_on_numbers(ctx, module, given)
        try:
            got = list(run(dict(zip(names, given, strict=True))).values())
        except QError:  # what its kernels do not take
            return count
        if not numbers:
            continue
        for a, b, kind in zip(wanted, got, kinds, strict=True):
            _near(a, b, quant_element(kind) is not None)
            count += 1
    return count


def run_on_numbers(
    ctx: QContext, module: ModuleOp, given: Sequence[np.ndarray], symbol: str | None = None
) -> tuple[list[np.ndarray], bool]:
    """The results, and whether every float on the way was a number: of what is infinite or no
    number, contracts say nothing, and engines make different codes."""
    numbers = True

    def look(op: Operation, results: Sequence[np.ndarray]) -> None:
        nonlocal numbers
        numbers &= all(a.dtype.kind != "f" or bool(np.isfinite(a).all()) for a in results)

    results = Interpreter(ctx, module, listeners=[look]).run(list(given), symbol)
    return results, numbers


def _near(a: np.ndarray, b: np.ndarray, codes: bool) -> None:
    if a.shape != b.shape:
        raise Apart(f"shapes {a.shape} and {b.shape}")
    if a.dtype.kind == "f":
        scale = max(float(np.abs(a[np.isfinite(a)]).max(initial=0)), 1e-30)
        far = np.abs(a.astype("f8") - b) / scale
        if not (np.nan_to_num(far) <= 1e-3).all():
            raise Apart(f"floats are {np.nanmax(far):.3g} of the largest apart")
        return
    if a.dtype.itemsize == b.dtype.itemsize:
        b = b.view(a.dtype)  # bits without a sign have one in ONNX
    steps = np.abs(a.astype("f8") - b.astype("f8"))
    share = float((steps > 0).mean()) if steps.size else 0.0
    if steps.max(initial=0) > (1 if codes else 0) or share > max(TIES, 2 / max(steps.size, 1)):
        raise Apart(f"{steps.max(initial=0):g} steps in {share:.1%} of the elements")


def _integers(module: ModuleOp, ctx: QContext, engine: str) -> int:
    try:
        ready = ready_model(integer_model(Model(module.clone(), ctx.clone())))
        runner = InEngine(ready, engine)
    except QError:
        return 0
    function = next(op for op in ready.module.ops if isinstance(op, FuncOp))
    inputs = drawn(function, SAMPLES)
    interpreter = Interpreter(ready.ctx, ready.module)
    made = runner.engine.run(runner.program, [list(given) for given in inputs])
    for given, got in zip(inputs, made, strict=True):
        for a, b in zip(interpreter.run(list(given)), got, strict=True):
            b = (b if a.dtype.itemsize != b.dtype.itemsize else b.view(a.dtype)).reshape(a.shape)
            if a.dtype.kind == "f":
                _near(a, b, False)
            elif not np.array_equal(a, b):
                steps = np.abs(a.astype("f8") - b.astype("f8"))
                raise Apart(f"{steps.max():g} steps in {(steps > 0).mean():.1%}")
    return len(made) * len(made[0])
