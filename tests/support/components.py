"""What component qparams are worth: lowered ops against the float op, in dB.

    python -m tools.bench components

Three quantized forms of one op on i8, all ranges by min-max on the same data: kept whole;
lowered with component qparams; lowered with the qparams of the result for every piece, which
is all there is if only the result was observed.
"""

# pyright: basic
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from qdialect.algebra.qparams import QParams
from qdialect.interpreter import Interpreter
from qdialect.ir.context import QContext, new_context
from qdialect.ir.ops import AddOp, UnsqueezeOp, constant_array, constant_of, make_constant
from qdialect.ir.ops.component_qparams import hold_types
from qdialect.ir.quant import UniformType, element_type
from qdialect.passes.lowering.lower_composites import LowerComposites
from qdialect.plugins.mlir.read import read_module, verify_module
from qdialect.plugins.mlir.write import module_text
from qdialect.quantizer.profile.instrument import instrument
from qdialect.quantizer.profile.ranges import Range
from qdialect.quantizer.profile.scheme import Scheme, tensor_qparams

Array = NDArray[np.float32]
I8 = Scheme.of("i8")


@dataclass(frozen=True)
class Case:
    """An op on `%x` of shape `shape`; constants by name, in f32; another shape of the result."""

    name: str
    text: str
    shape: tuple[int, ...]
    constants: tuple[tuple[int, ...], ...] = ()
    result: tuple[int, ...] = ()
    offset: float = 0.0


_LSTM = ((1, 64, 8), (1, 64, 16), (1, 128))
_GRU = ((1, 48, 8), (1, 48, 16), (1, 96))
CASES = [
    Case("fully_connected", "fully_connected %x, %c0, %c1", (64, 32), ((16, 32), (16,)), (64, 16)),
    Case("conv2d", "conv2d %x, %c0, %c1", (4, 3, 8, 8), ((6, 3, 3, 3), (6,)), (4, 6, 6, 6)),
    Case("batch_norm", "batch_norm %x, %c0, %c1, %c2, %c3", (16, 8, 4, 4), ((8,),) * 4),
    Case("layer_norm", "layer_norm %x, %c0, %c1", (64, 32), ((32,), (32,)), offset=3.0),
    Case("softmax", "softmax %x", (64, 10)),
    Case("attention", "attention %x, %x, %x scale 0.25", (2, 2, 12, 16)),
    Case("gelu", "gelu %x", (64, 32)),
    Case("gelu tanh", "gelu %x approximate tanh", (64, 32)),
    Case("swish", "swish %x", (64, 32)),
    Case("hard_swish", "hard_swish %x", (64, 32)),
    Case("hard_sigmoid", "hard_sigmoid %x", (64, 32)),
    Case("lrn", "lrn %x size 5 alpha 1.0", (4, 16, 5, 5)),
    Case("lstm", "lstm %x, %c0, %c1, %c2", (6, 16, 8), _LSTM, (6, 1, 16, 16)),
    Case("gru", "gru %x, %c0, %c1, %c2", (6, 16, 8), _GRU, (6, 1, 16, 16)),
    Case("reduce_mean", "reduce_mean %x axes [1]", (64, 32), (), (64, 1)),
]


def shaped(shape: tuple[int, ...]) -> str:
    return "tensor<" + "".join(f"{n}x" for n in shape) + "f32>"


def float_module(case: Case, ctx: QContext) -> ModuleOp:
    lines = []
    kinds = [shaped(case.shape)] * case.text.count("%x")
    rng = np.random.default_rng(5)
    result = case.result or case.shape
    for n, shape in enumerate(case.constants):
        # A bias that is far from the products moves the range away from theirs.
        away = 4 if n == 1 and len(shape) == 1 else 0
        values = rng.normal(size=shape) * (0.2 if len(shape) > 1 else 1) + away
        values = np.abs(values) + 0.1 if case.name == "batch_norm" and n == 3 else values
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
    module: ModuleOp,
    ctx: QContext,
    source: UniformType,
    types: dict[str, UniformType],
    *,
    per_axis: bool = False,
) -> ModuleOp:
    """The op on codes, with component qparams, between arguments and results on codes; weights on
    one scale, or one for each channel with `per_axis`."""
    module = module.clone()
    function = next(op for op in module.body.block.ops if isinstance(op, FuncOp))
    block = function.body.block
    op = next(op for op in block.ops if op.name != "nn.constant")

    def retype(value: Any, element: Any) -> None:
        value._type = TensorType(element, value.type.get_shape())

    def put(index: int, codes: NDArray[Any], params: QParams) -> None:
        constant = make_constant(codes, UniformType(params), ctx.blobs)
        block.insert_op_before(constant, op)
        op.operands[index] = constant.result

    retype(block.args[0], source)
    retype(op.results[0], types["op"])
    acc = None if (behavior := ctx.behaviors.get(op)) is None else behavior.accumulator
    layer = op.name in ("nn.lstm", "nn.gru")
    for index in (1, 2) if layer else (1,) if has_bias(op, ctx) else ():
        weight = np.array(ctx_array(ctx, op.operands[index]), np.float64)
        axis = 1 if layer or acc is None else acc.rhs_axis(op)
        others = tuple(d for d in range(weight.ndim) if d != axis) if per_axis else None
        scales = np.abs(weight).max(axis=others, keepdims=True).astype(np.float32) / np.float32(127)
        listed = [float(scale) for scale in scales.ravel()]
        params = QParams.per_tensor("i8", listed[0], 0)
        if per_axis:
            params = QParams.per_axis("i8", axis, listed, None)
        put(index, np.rint(weight / scales).astype(np.int8), params)
        if not layer:
            bias = np.array(ctx_array(ctx, op.operands[2]), np.float64)
            steps = [source.qparams.scale * scale for scale in listed]
            b = QParams.per_tensor("i32", steps[0], 0)
            if per_axis:
                b = QParams.per_axis("i32", 0, steps, None)
            put(2, np.rint(bias / np.array(steps)).astype(np.int32), b)
    hold_types(op, {k.removeprefix("op/"): v for k, v in types.items() if k != "op"})
    function.update_function_type()
    verify_module(module, ctx)
    return module


def has_bias(op: Operation, ctx: QContext) -> bool:
    """Whether products are summed on a bias."""
    behavior = ctx.behaviors.get(op)
    acc = None if behavior is None else behavior.accumulator
    return acc is not None and acc.bias is not None and len(op.operands) > acc.bias


def ctx_array(ctx: QContext, value: Any) -> Array:
    constant = constant_of(value)
    assert constant is not None
    return constant_array(constant, ctx.blobs)


def codes_of(values: Array, kind: UniformType) -> NDArray[np.int8]:
    """The codes of values, rounded and clipped."""
    q = kind.qparams
    return np.clip(np.rint(values / q.scale) + q.zero_point, -128, 127).astype(np.int8)


def decibels(codes: NDArray[np.int8], kind: UniformType, expected: Array) -> float:
    """How far the noise of codes is below what is expected."""
    real = (codes.astype(np.float64) - kind.qparams.zero_point) * kind.qparams.scale
    noise = ((real - expected) ** 2).mean()
    return float(10 * np.log10((expected.astype(np.float64) ** 2).mean() / noise))


def sqnr(module: ModuleOp, ctx: QContext, x: Array, source: UniformType, expected: Array) -> float:
    """The dB of what a function of one argument on codes gives."""
    (got,) = Interpreter(ctx, module).run([codes_of(x, source)])
    function = next(op for op in module.body.block.ops if isinstance(op, FuncOp))
    last: Any = function.body.block.last_op
    kind: Any = element_type(last.operands[0].type)
    return decibels(got, kind, expected)


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
        if form == "result" and case.name in ("fully_connected", "conv2d"):
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
    function = next(op for op in module.body.block.ops if isinstance(op, FuncOp))
    block = function.body.block
    op: Any = next(op for op in block.ops if len(op.operands) == 3)
    kind: Any = op.results[0].type
    x, weight, bias = op.operands
    product = type(op)(x, weight, result_types=[kind], **op.values)
    added = [product]
    if len(kind.get_shape()) > 2:
        added.append(UnsqueezeOp(bias, axes=range(1, len(kind.get_shape()) - 1)))
        bias = added[-1].results[0]
    added.append(AddOp(product.results[0], bias, result_types=[kind]))
    block.insert_ops_before(added, op)
    op.results[0].replace_all_uses_with(added[-1].results[0])
    op.detach()
    op.erase()


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each composite."""
    print(f"{'op':16} {'whole':>8} {'components':>11} {'result only':>12}   dB")
    for each in CASES:
        print(f"{each.name:16} " + "{:8.1f} {:11.1f} {:12.1f}".format(*measured(each)))
    return 0
