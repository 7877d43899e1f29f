"""A small but complete compiler for a small core, with qdialect as its front end.

    python docs/examples/tinycore.py model.onnx x.npz y.npz

It takes a quantized ONNX model through import, optimization and lowering, writes one C
file of integer code, compiles it with `cc` and runs it. Nothing of it is inside qdialect.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
from tinycore_c import compiled, values_of, zero_of
from xdsl.dialects.builtin import DenseArrayBase, TypeAttribute
from xdsl.ir import Dialect
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

import qdialect as qd
from qdialect.behaviors import Behavior, Port, PortKind
from qdialect.context import new_context
from qdialect.numerics.contract import EXACT
from qdialect.numerics.rounding import Rounding
from qdialect.ops import Conv2DOp, TableOp, shape_of
from qdialect.passes.pipelines import optimize_pipeline
from qdialect.passes.rule_pass import RulePass
from qdialect.quant import RescaleOp, quant_element
from qdialect.rewrite import Refusal
from qdialect.rewrite import Rule as Rewrite
from qdialect.targets.base import Interface, Target
from qdialect.targets.kernels import Kernel

# [dialect] One op of our own: a convolution whose results go through a lookup at once.


@irdl_op_definition
class ConvLutOp(IRDLOperation):
    """table[clamp(round((x * w + b) * multiplier * 2**-shift) + zero point of `codes`)]."""

    name = "tiny.conv_lut"
    input = operand_def()
    weight = operand_def()
    bias = operand_def()
    table = operand_def()
    result = result_def()
    strides = prop_def(DenseArrayBase)
    pads = prop_def(DenseArrayBase)
    dilations = prop_def(DenseArrayBase)
    groups = prop_def()
    multiplier = prop_def(DenseArrayBase)
    shift = prop_def(DenseArrayBase)
    codes = prop_def(TypeAttribute)
    traits = traits_def(Pure())


TINY = Dialect("tiny", [ConvLutOp])

#: its parameters are what the fusion found: no pass may change them
CONV_LUT = Behavior(
    "tiny.conv_lut",
    (
        Port("input", PortKind.FIXED),
        Port("weight", PortKind.FIXED, axes=lambda op: frozenset({0})),
        Port("bias", PortKind.FIXED, axes=lambda op: frozenset({0})),
        Port("table", PortKind.FIXED),
    ),
    (Port("result", PortKind.FIXED),),
)

# [target] What the core runs, what that costs, and how it rounds.

_CODES = (Kernel(("i8|i16|i32",), ("i8|i16|i32",)),)
_WINDOW = (Kernel(("i8", "i8 per-axis", "i32 per-axis"), ("i8|i32 per-axis",)),)
_OPS = (
    "add sub mul div maximum table concat max_pool2d avg_pool2d global_avg_pool2d reduce_mean "
    "reduce_sum reduce_max reshape flatten squeeze unsqueeze relu clip softmax hard_swish "
    "leaky_relu sigmoid tanh"
)

TARGET = Target(
    "tinycore",
    "a core with 8-bit products, 32-bit sums and lookups",
    extensions={
        "start": ("reencode-storage{activations=i8 weights=i8}",),
        "end": (
            "place-rescales{boundary=maximize-integer numerics=LEVEL}",
            "integerize{numerics=LEVEL}",
        ),
    },
    storages=frozenset({"i8", "i16", "i32"}),
    symmetric=frozenset({"i16", "i32"}),
    per_block=False,
    per_axis_zero_points=False,
    floats=False,
    kernels={
        "quant.rescale": (*_CODES, Kernel(("i32 per-axis",), ("i8|i16|i32",))),
        "nn.constant": (Kernel(),),
        **dict.fromkeys(("nn.conv2d", "nn.fully_connected"), _WINDOW),
        **{f"nn.{name}": _CODES for name in _OPS.split()},
    },
    runs_others=False,
    roundings=(Rounding.HALF_UP,),
    price=2.0,
    shift_price=1.0,
    prices={"nn.table": 0.5},
    keep_whole=frozenset({"nn.conv2d", "nn.fully_connected", "nn.hard_swish"}),
    interface=Interface.INTEGER,
)

# [rule] The rewrite that makes our op, with a reason wherever it does not.


class FuseConvLut(Rewrite[TableOp]):
    """table(rescale(conv2d(x, w, b))) = conv_lut(x, w, b, table), by definition."""

    name = "tiny-fuse-conv-lut"

    def roots(self):
        return (TableOp.name,)

    def match(self, op):
        rescale = op.operands[0].owner
        is_conv = isinstance(rescale, RescaleOp) and isinstance(rescale.input.owner, Conv2DOp)
        return op if is_conv else None

    def check(self, match):
        rescale = match.operands[0].owner
        conv = rescale.input.owner
        if not (rescale.result.has_one_use() and conv.result.has_one_use()):
            return Refusal("multi-use", "what is between is used elsewhere too")
        if len(conv.operands) < 3:
            return Refusal("no-bias", "the core adds a bias")
        if rescale.fixed_point is None or rescale.rounding is not Rounding.HALF_UP:
            return Refusal("rounding", "the core multiplies, adds a half and shifts")
        return EXACT

    def rewrite(self, match, rewriter):
        rescale = match.operands[0].owner
        conv = rescale.input.owner
        copied = ("strides", "pads", "dilations", "groups")
        fused = ConvLutOp.create(
            operands=[*conv.operands, match.operands[1]],
            result_types=[match.result.type],
            properties={
                **{name: conv.properties[name] for name in copied},
                "multiplier": rescale.properties["multiplier"],
                "shift": rescale.properties["shift"],
                "codes": rescale.result.type,
            },
        )
        rewriter.insert(fused, match, keep=match)
        rewriter.replace(match, fused.results)


@dataclass(frozen=True)
class TinyFuse(RulePass):
    """table(rescale(conv)) becomes one op."""

    name = "tiny-fuse"

    def rules(self, session):
        return (FuseConvLut(session),)


# [front] Import, optimize, lower to exact integer steps, fuse.

PIPELINE = (
    f"{optimize_pipeline(TARGET, 'bounded')},lower-float-regions{{numerics=relaxed}},"
    "fold-interface,fold-constants,form-tables{numerics=bounded},form-softmax-tables{numerics=bounded},"
    "split-rescale{numerics=bounded},convert-rescale{form=fixed numerics=bounded},cse,dce"
)


def front_end(path):
    """The model as the core runs it: codes in, codes out."""
    session = new_context()
    session.load_dialect(TINY)
    session.behaviors.register(CONV_LUT)
    session.kernels[ConvLutOp.name] = conv_lut_kernel
    model = qd.load(path, session)
    model = qd.run_passes(model, PIPELINE, target=TARGET)
    TinyFuse().apply(model.ctx, model.module)
    return qd.run_passes(model, "cse,dce", target=TARGET)


def conv_lut_kernel(op, operands, evaluation):
    """The op for the interpreter, from its definition: any number of bits, no overflow."""
    x, w, b, table = (np.asarray(v).astype(object) for v in operands)
    (zx, zw, _, _), p = (zero_of(v.type) for v in op.operands), values_of(op)
    (top, left, bottom, right), groups = p["pads"], p["groups"]
    x = np.pad(x - zx, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=0)
    outs, per, kh, kw = w.shape
    n, _, height, width = shape_of(op.results[0])
    acc = np.zeros((n, outs, height, width), object) + b.reshape(1, -1, 1, 1)
    for o in range(outs):
        first = o // (outs // groups) * per
        for c, i, j in np.ndindex(per, kh, kw):
            rows = slice(i * p["dilations"][0], None, p["strides"][0])
            columns = slice(j * p["dilations"][1], None, p["strides"][1])
            seen = x[:, first + c, rows, columns][:, :height, :width]
            acc[:, o] += seen * (w[o, c, i, j] - zw)
    pairs = list(zip(p["multiplier"], p["shift"], strict=True)) * outs
    q = quant_element(op.codes).qparams
    for o in range(outs):
        multiplier, shift = pairs[o]
        acc[:, o] = (acc[:, o] * multiplier + (1 << (shift - 1))) // (1 << shift)
    codes = np.clip(acc + q.zero_point, q.storage.min, q.storage.max) + 128
    return [table[codes.astype(int)].astype(evaluation.dtype(op.results[0].type))]


def main(path, source, result):
    model = front_end(path)
    arrays = np.load(source)
    outputs = compiled(model)(*(arrays[name] for name in arrays.files))
    np.savez(result, *outputs)


if __name__ == "__main__":
    main(*sys.argv[1:])
