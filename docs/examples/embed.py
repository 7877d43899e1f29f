"""A compiler around qdialect: IR from builders, passes, and C from the ops that are left."""

import sys
from math import prod

import numpy as np
from xdsl.builder import ImplicitBuilder
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue

import qdialect as qd
from qdialect.algebra.qparams import QParams
from qdialect.algebra.rounding import Rounding
from qdialect.ir import ops as nn
from qdialect.ir.quant import RescaleOp, UniformType, quant_element


def build() -> qd.Model:
    """relu(x @ w^T + b) on codes, as a front end writes it: op by op."""
    ctx, rng = qd.new_context(), np.random.default_rng(0)
    x_codes = UniformType(QParams.per_tensor("i8", 0.05, 3))  # 0.05 * (code - 3)
    w_codes = UniformType(QParams.per_tensor("i8", 0.02))
    b_codes = UniformType(QParams.per_tensor("i32", 0.05 * 0.02))
    y_codes = UniformType(QParams.per_tensor("i8", 0.11, -128))
    main = FuncOp("main", ([TensorType(x_codes, [1, 16])], [TensorType(y_codes, [1, 8])]))
    with ImplicitBuilder(main.body) as (x,):
        w = nn.make_constant(rng.integers(-127, 128, (8, 16)).astype("i1"), w_codes, ctx.blobs)
        b = nn.make_constant(rng.integers(-999, 999, 8).astype("i4"), b_codes, ctx.blobs)
        y = nn.FullyConnectedOp(x, w, b, element=y_codes, rounding="half_up")
        ReturnOp(nn.ReluOp(y))
    return qd.Model(ModuleOp([main]), ctx)


def lower(model: qd.Model) -> qd.Model:
    """What rounds becomes an op on exact integers and a rescale: multiply, add a half, shift."""
    passes = "canonicalize,split-rescale,convert-rescale{form=fixed},cse,dce"
    return qd.run_passes(model, passes)


def emit(model: qd.Model) -> str:
    """C for what is left: a case for each kind of op, and an error for any other."""
    block, names, lines = model.function().body.block, dict[SSAValue, str](), list[str]()
    names[block.args[0]] = "x"
    for op in block.ops:
        for result in op.results:
            names[result] = f"v{len(names)}"
        values = [names[value] for value in (*op.operands, *op.results)]
        length = prod(nn.shape_of((*op.operands, *op.results)[-1]))
        head = f"for (int i = 0; i < {length}; i++)"
        match op:
            case nn.ConstantOp():
                numbers = ", ".join(map(str, nn.constant_array(op, model.ctx.blobs).flat))
                lines.append(f"static const int32_t {values[0]}[] = {{{numbers}}};")
            case nn.FullyConnectedOp() if qparams(op.result).storage.width == 32:
                (outs, depth), (x, w, b, y) = nn.shape_of(op.weight), values
                zx, zw = qparams(op.input).zero_point, qparams(op.weight).zero_point
                term = f"({x}[i / {outs} * {depth} + k] - ({zx}))"
                term += f" * ({w}[i % {outs} * {depth} + k] - ({zw}))"
                lines.append(f"int32_t {y}[{length}];\n  {head} {{ {y}[i] = {b}[i % {outs}];")
                lines.append(f"  for (int k = 0; k < {depth}; k++) {y}[i] += {term}; }}")
            case RescaleOp(rounding=Rounding.HALF_UP, fixed_point=[(multiplier, shift)]):
                q, (x, y) = qparams(op.result), values
                scaled = f"(({x}[i] * {multiplier}LL + (1LL << {shift} >> 1)) >> {shift})"
                code = f"{scaled} + ({q.zero_point})"
                lines.append(f"int32_t {y}[{length}];\n  {head} {{ int64_t c = {code};")
                low, high = q.storage.min, q.storage.max
                lines.append(f"  {y}[i] = c < {low} ? {low} : c > {high} ? {high} : c; }}")
            case ReturnOp():
                lines.append(f"{head} y[i] = {values[0]}[i];")
            case _:
                raise qd.UnsupportedError(f"there is no code for '{op.name}'")
    body = "\n  ".join(lines)
    return f"#include <stdint.h>\nvoid run(const int32_t *x, int32_t *y) {{\n  {body}\n}}\n"


def qparams(value: SSAValue) -> QParams:
    """Scale and zero point of a value that holds codes."""
    element = quant_element(value.type)
    assert element is not None
    return element.qparams


if __name__ == "__main__":
    sys.stdout.write(emit(lower(build())))
