"""One program here and in an engine: bit for bit where that is promised, else how far apart."""

# pyright: basic
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from qdialect.api import Model
from qdialect.errors import QError
from qdialect.interpreter import Interpreter, argument_names
from qdialect.interpreter.quantize import load
from qdialect.ir.context import QContext
from qdialect.ir.ops import NNOp, constant_of, shape_of
from qdialect.ir.quant import quant_element
from qdialect.workflows.lower import integer_model, ready_model
from qdialect.workflows.run import open_engine
from qdialect.workflows.run_program import InEngine
from qdialect.workflows.validation.translation import drawn

TIES = 0.15
"""Share of codes that floats of 32 bits may put on the other side of a tie."""
SAMPLES = 2


class Apart(Exception):
    """An engine gives other numbers than the interpreter."""

    check = "engine"


def check_engine(module: ModuleOp, ctx: QContext, engine: str) -> int:
    """How many results were compared; 0 where the engine or the path to it refuses the program.

    ONNX Runtime runs each op as it is, in floats between casts: codes may be a step apart in
    few elements. The others run integers, bit for bit.
    """
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    if any(n < 0 for value in function.body.block.args for n in shape_of(value)):
        return 0
    return _runtime(module, ctx) if engine == "onnxruntime" else _integers(module, ctx, engine)


def _runtime(module: ModuleOp, ctx: QContext) -> int:
    """Op by op, on what the interpreter gives each: a tie that rounds the other way would
    be any number of steps behind a steep op."""
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    ops = [op for op in function.body.block.ops if op.operands and not isinstance(op, ReturnOp)]
    singles = {op: made for op in ops if (made := _single(op, ctx)) is not None}
    count = 0
    for given in drawn(function, SAMPLES):
        held: dict[SSAValue, np.ndarray] = dict(zip(function.body.block.args, given, strict=True))

        def keep(op: Operation, results: Sequence[np.ndarray], held=held) -> None:
            held.update(zip(op.results, results, strict=True))

        Interpreter(ctx, module, listeners=[keep]).run(list(given))
        for op, (run, names, free) in singles.items():
            arrays = [held[value] for value in free]
            wanted = [held[value] for value in op.results]
            if not _numbers([*arrays, *wanted]) or _divides_by_zero(op, held, ctx):
                continue
            try:
                got = list(run(dict(zip(names, arrays, strict=True))).values())
            except QError:  # what its kernels do not take
                continue
            for a, b, value in zip(wanted, got, op.results, strict=True):
                _near(op, a, b, quant_element(value.type) is not None)
                count += 1
    return count


def _single(op: Operation, ctx: QContext) -> Any:
    """A program of one op in ONNX Runtime, its arguments' names, and which operands they are."""
    block, known = Block(), {}
    free = [v for v in dict.fromkeys(op.operands) if constant_of(v) is None]
    for value in free:
        known[value] = block.insert_arg(value.type, len(block.args))
    for value in op.operands:
        constant = constant_of(value)
        if constant is not None and value not in known:
            copy = constant.clone()
            block.add_op(copy)
            known[value] = copy.result
    copy = op.clone(known)
    block.add_op(copy)
    block.add_op(ReturnOp(*copy.results))
    kinds = FunctionType.from_lists([v.type for v in free], [v.type for v in copy.results])
    module = ModuleOp([function := FuncOp("main", kinds, Region([block]))])
    if isinstance(copy, NNOp) and not copy.values.get("sorted", True):
        return None  # in any order
    try:
        run = open_engine(Model(module, ctx.clone()), "onnxruntime")
    except QError:
        return None
    return run, argument_names(function), free


def _divides_by_zero(op: Operation, held: dict[SSAValue, np.ndarray], ctx: QContext) -> bool:
    behavior = ctx.behaviors.get(op)
    for index in () if behavior is None else behavior.nonzero:
        value = op.operands[index]
        if value in held and (load(held[value], value.type).approx == 0).any():
            return True
        if value not in held:
            return True  # a constant, which was not looked at
    return False


def _numbers(arrays: Sequence[np.ndarray]) -> bool:
    return all(a.dtype.kind != "f" or bool(np.isfinite(a).all()) for a in arrays)


def run_on_numbers(
    ctx: QContext, module: ModuleOp, given: Sequence[np.ndarray], symbol: str | None = None
) -> tuple[list[np.ndarray], bool]:
    """The results, and whether every float on the way was a number: of what is infinite or no
    number, contracts say nothing, and engines make different codes."""
    numbers = True

    def look(op: Operation, results: Sequence[np.ndarray]) -> None:
        nonlocal numbers
        numbers &= _numbers(results)

    results = Interpreter(ctx, module, listeners=[look]).run(list(given), symbol)
    return results, numbers


def _near(op: Operation, a: np.ndarray, b: np.ndarray, codes: bool) -> None:
    if a.shape != b.shape:
        raise Apart(f"'{op.name}': shapes {a.shape} and {b.shape}")
    if a.dtype.kind == "f":
        scale = max(float(np.abs(a[np.isfinite(a)]).max(initial=0)), 1e-30)
        far = np.abs(a.astype("f8") - b) / scale
        if not (np.nan_to_num(far) <= 1e-3).all():
            raise Apart(f"'{op.name}': floats are {np.nanmax(far):.3g} of the largest apart")
        return
    if a.dtype.itemsize == b.dtype.itemsize:
        b = b.view(a.dtype)  # bits without a sign have one in ONNX
    steps = np.abs(a.astype("f8") - b.astype("f8"))
    share = float((steps > 0).mean()) if steps.size else 0.0
    if steps.max(initial=0) > (1 if codes else 0) or share > max(TIES, 2 / max(steps.size, 1)):
        raise Apart(f"'{op.name}': {steps.max(initial=0):g} steps in {share:.1%} of the elements")


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
    last = function.body.block.last_op
    assert last is not None
    for given, got in zip(inputs, made, strict=True):
        for a, b in zip(interpreter.run(list(given)), got, strict=True):
            b = (b if a.dtype.itemsize != b.dtype.itemsize else b.view(a.dtype)).reshape(a.shape)
            if a.dtype.kind == "f":
                _near(last, a, b, False)
            elif not np.array_equal(a, b):
                steps = np.abs(a.astype("f8") - b.astype("f8"))
                raise Apart(f"{steps.max():g} steps in {(steps > 0).mean():.1%}")
    return len(made) * len(made[0])
