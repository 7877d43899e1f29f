"""What component qparams are worth: lowered ops against the float op, in dB.

    python tests/profile/test_component_lowering.py      prints the table

Three quantized forms of one op on i8, all ranges by min-max on the same data: kept whole;
lowered with component qparams; lowered with the qparams of the result for every piece, which
is all there is if only the result was observed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp

from qdialect.backends.mlir import module_text
from qdialect.context import QContext, new_context
from qdialect.dialects.nn import constant_of, make_constant
from qdialect.dialects.nn.component_qparams import component_types, hold_types
from qdialect.dialects.quant import UniformType, element_type
from qdialect.frontends.mlir import read_module, verify_module
from qdialect.interpreter import Interpreter
from qdialect.profile.instrument import instrument
from qdialect.profile.ranges import Range
from qdialect.profile.scheme import Scheme, tensor_qparams
from qdialect.qparams import QParams
from qdialect.transforms.lower_composites import LowerComposites

Array = NDArray[np.float32]
I8 = Scheme.of("i8")


@dataclass(frozen=True)
class Case:
    """An op on `%x` of shape `shape`; constants by name, in f32."""

    name: str
    text: str
    shape: tuple[int, ...]
    constants: tuple[tuple[int, ...], ...] = ()
    offset: float = 0.0
    #: the least that component qparams gain over those of the result
    gain: float = 3.0


CASES = [
    Case("fully_connected", "fully_connected %x, %c0, %c1", (64, 32), ((16, 32), (16,)), gain=3.0),
    Case("layer_norm", "layer_norm %x, %c0, %c1", (64, 32), ((32,), (32,)), offset=3.0),
    Case("softmax", "softmax %x", (64, 10)),
    Case("gelu", "gelu %x", (64, 32)),
    Case("gelu tanh", "gelu %x approximate tanh", (64, 32)),
    Case("swish", "swish %x", (64, 32), gain=2.0),
    Case("hard_swish", "hard_swish %x", (64, 32)),
    Case("lrn", "lrn %x size 5 alpha 1.0", (4, 16, 5, 5), gain=-1.0),
    Case("lstm", "lstm %x, %c0, %c1, %c2", (6, 16, 8), ((1, 64, 8), (1, 64, 16), (1, 128))),
    Case("gru", "gru %x, %c0, %c1, %c2", (6, 16, 8), ((1, 48, 8), (1, 48, 16), (1, 96))),
    Case("reduce_mean", "reduce_mean %x axes [1]", (64, 32), gain=0.0),
]


def shaped(shape: tuple[int, ...]) -> str:
    return "tensor<" + "".join(f"{n}x" for n in shape) + "f32>"


def float_module(case: Case, ctx: QContext) -> ModuleOp:
    lines, kinds = [], [shaped(case.shape)]
    rng = np.random.default_rng(5)
    result = case.shape
    if case.name == "fully_connected":
        result = (case.shape[0], case.constants[0][0])
    if case.name == "reduce_mean":
        result = (case.shape[0], 1)
    if case.name in ("lstm", "gru"):
        result = (case.shape[0], 1, case.shape[1], case.constants[1][2])
    for n, shape in enumerate(case.constants):
        # A bias that is far from the products moves the range away from theirs.
        away = 4 if n == 1 and len(shape) == 1 else 0
        values = rng.normal(size=shape) * (0.2 if len(shape) > 1 else 1) + away
        bits = values.astype("<f4").tobytes().hex()
        lines.append(f'%c{n} = nn.constant dense<"0x{bits}"> : {shaped(shape)} : {shaped(shape)}')
        kinds.append(shaped(shape))
    lines.append(
        f'%y = nn.{case.text} {{nn.key = "op"}} : ({", ".join(kinds)}) -> {shaped(result)}'
    )
    body = "\n".join(lines)
    head = f"func.func @main(%x: {kinds[0]}) -> {shaped(result)}"
    text = f"{head} {{\n{body}\nreturn %y : {shaped(result)}\n}}"
    module = read_module(text, ctx)
    verify_module(module, ctx)
    return module


def qparams(values: Array) -> UniformType:
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    return UniformType(tensor_qparams(Range(low, high), I8)[0])


def observed(module: ModuleOp, ctx: QContext, x: Array) -> dict[str, UniformType]:
    """Qparams by key of the op and its pieces."""
    found = instrument(module, ctx)
    found.return_observed()
    arrays = Interpreter(ctx, found.module).run([x])
    keys = [entry.keys[0] for entry in found.observed]
    return {key: qparams(array) for key, array in zip(keys, arrays, strict=True)}


def quantized(
    module: ModuleOp, ctx: QContext, source: UniformType, types: dict[str, UniformType]
) -> ModuleOp:
    """The op on codes, with component qparams, between arguments and results on codes."""
    module = module.clone()
    function = next(op for op in module.body.block.ops if isinstance(op, FuncOp))
    block = function.body.block
    op = next(op for op in block.ops if op.name != "nn.constant")

    def retype(value: object, element: object) -> None:
        value._type = TensorType(element, value.type.get_shape())

    retype(block.args[0], source)
    retype(op.results[0], types["op"])
    if op.name == "nn.fully_connected":
        weight, bias = (
            np.array(ctx_array(ctx, operand), np.float64) for operand in op.operands[1:]
        )
        reach = Range(float(weight.min()), float(weight.max()))
        w, _ = tensor_qparams(reach, Scheme.of("i8", "symmetric"))
        s = source.qparams.scale * w.scale
        b = QParams.per_tensor("i32", s, 0)
        arrays = [
            make_constant(np.rint(weight / w.scale).astype(np.int8), UniformType(w), ctx.blobs),
            make_constant(np.rint(bias / s).astype(np.int32), UniformType(b), ctx.blobs),
        ]
        for index, constant in enumerate(arrays, 1):
            block.insert_op_before(constant, op)
            op.operands[index] = constant.result
    if op.name in ("nn.lstm", "nn.gru"):
        for index in (1, 2):
            weight = np.array(ctx_array(ctx, op.operands[index]), np.float64)
            reach = Range(float(weight.min()), float(weight.max()))
            w, _ = tensor_qparams(reach, Scheme.of("i8", "symmetric"))
            codes = np.rint(weight / w.scale).astype(np.int8)
            constant = make_constant(codes, UniformType(w), ctx.blobs)
            block.insert_op_before(constant, op)
            op.operands[index] = constant.result
    hold_types(op, {k.removeprefix("op/"): v for k, v in types.items() if k != "op"})
    function.update_function_type()
    verify_module(module, ctx)
    return module


def ctx_array(ctx: QContext, value: object) -> Array:
    from qdialect.dialects.nn import constant_array

    constant = constant_of(value)
    assert constant is not None
    return constant_array(constant, ctx.blobs)


def sqnr(module: ModuleOp, ctx: QContext, x: Array, source: UniformType, wanted: Array) -> float:
    def codes(values: Array, kind: UniformType) -> Array:
        q = kind.qparams
        return np.clip(np.rint(values / q.scale) + q.zero_point, -128, 127).astype(np.int8)

    (got,) = Interpreter(ctx, module).run([codes(x, source)])
    function = next(op for op in module.body.block.ops if isinstance(op, FuncOp))
    kind = element_type(function.body.block.last_op.operands[0].type)
    real = (got.astype(np.float64) - kind.qparams.zero_point) * kind.qparams.scale
    noise = ((real - wanted) ** 2).mean()
    return float(10 * np.log10((wanted.astype(np.float64) ** 2).mean() / noise))


def measured(case: Case) -> tuple[float, float, float]:
    """dB of the op whole, lowered with component qparams, and with those of the result."""
    ctx = new_context()
    x = np.random.default_rng(7).normal(case.offset, 1.5, case.shape).astype(np.float32)
    module = float_module(case, ctx)
    (wanted,) = Interpreter(ctx, module).run([x])
    types, source = observed(module, ctx, x), qparams(x)
    if case.name == "lrn":
        types["op"] = source
    found = []
    for form in ("whole", "components", "result"):
        held = {key: types["op"] if form == "result" else kind for key, kind in types.items()}
        candidate = quantized(module, ctx, source, held)
        if form == "result" and case.name == "fully_connected":
            split(candidate)
        elif form != "whole":
            before = module_text(candidate, ctx)
            LowerComposites(numerics="relaxed").apply(ctx, candidate)
            verify_module(candidate, ctx)
            assert module_text(candidate, ctx) != before
        found.append(sqnr(candidate, ctx, x, source, wanted))
    return found[0], found[1], found[2]


def split(module: ModuleOp) -> None:
    """Product and bias apart, both on the qparams of the result: what is known without
    component qparams and accumulators."""
    from qdialect.dialects.nn import AddOp, FullyConnectedOp

    function = next(op for op in module.body.block.ops if isinstance(op, FuncOp))
    op = next(op for op in function.body.block.ops if op.name == "nn.fully_connected")
    kind = op.results[0].type
    product = FullyConnectedOp(op.operands[0], op.operands[1], result_types=[kind])
    total = AddOp(product.result, op.operands[2], result_types=[kind])
    function.body.block.insert_ops_before([product, total], op)
    op.results[0].replace_all_uses_with(total.results[0])
    op.detach()
    op.erase()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_component_qparams_are_worth_it(case: Case) -> None:
    whole, components, result = measured(case)
    assert components >= result + case.gain
    assert components <= whole + 1.0, "a judge that is better than no pieces is wrong"


def test_pieces_of_pieces_are_observed() -> None:
    ctx = new_context()
    module = float_module(CASES[1], ctx)
    x = np.random.default_rng(3).normal(size=CASES[1].shape).astype(np.float32)
    found = observed(module, ctx, x)
    assert {"op/mean/sum", "op/mean", "op/variance/sum", "op/variance", "op"} <= set(found)
    held = {key.removeprefix("op/"): kind for key, kind in found.items() if key != "op"}
    op = next(op for op in module.walk() if op.name == "nn.layer_norm")
    components = ctx.components[op.name]
    inner = components.inner_roles(op, ctx.components)
    assert set(held) == {*components.roles_of(op)[:-1], *inner}


def test_types_are_read_back() -> None:
    ctx = new_context()
    module = float_module(CASES[2], ctx)
    op = next(op for op in module.walk() if op.name == "nn.softmax")
    kind = UniformType(QParams.per_tensor("i8", 0.5, 0))
    hold_types(op, dict.fromkeys(("sub_max", "exp", "sum"), kind))
    assert component_types(op) == dict.fromkeys(("sub_max", "exp", "sum"), kind)


if __name__ == "__main__":
    print(f"{'op':16} {'whole':>8} {'components':>11} {'result only':>12}   dB")
    for each in CASES:
        print(f"{each.name:16} " + "{:8.1f} {:11.1f} {:12.1f}".format(*measured(each)))
