"""Programs as text, passes on them, and the interpreter before and after.

Every input is a tensor of plain integers that `quant.scast` turns into codes, so a
type with narrowed bounds also meets codes outside them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from qdialect.algebra.contract import Numerics
from qdialect.algebra.qparams import Storage
from qdialect.interpreter import Evaluation, Interpreter
from qdialect.ir.context import QContext, new_context
from qdialect.pipeline.registry import PassRegistry
from qdialect.pipeline.text import parse_pipeline
from qdialect.plugins.mlir.read import read_module, verify_module
from qdialect.plugins.mlir.write import module_text
from qdialect.plugins.onnx.dialect import NodeOp
from qdialect.plugins.onnx.write import evaluate_node
from qdialect.rewrite import Remark

Array = NDArray[np.generic]

#: what families draw from; every program begins its own stream
RANDOM = np.random.default_rng()

#: rule -> (programs, elements compared, elements that differ in IEEE floats)
EXECUTED: dict[str, Counter[str]] = {}


def parse(text: str, ctx: QContext | None = None) -> tuple[ModuleOp, QContext]:
    """A verified module and its session."""
    ctx = ctx or new_context()
    module = read_module(text, ctx)
    verify_module(module, ctx)
    return module, ctx


def apply(module: ModuleOp, ctx: QContext, pipeline: str) -> list[Remark]:
    """Run passes, verify the result and its def-use lists; the remarks they made."""
    before = len(ctx.remarks.remarks)
    for _, instance in PassRegistry().build(parse_pipeline(pipeline)):
        instance.apply(ctx, module)
    verify_module(module, ctx)
    check_uses(module)
    return ctx.remarks.remarks[before:]


def optimized(text: str, pipeline: str) -> str:
    """`text` after `pipeline`."""
    module, ctx = parse(text)
    apply(module, ctx, pipeline)
    return module_text(module, ctx)


def check_uses(module: ModuleOp) -> None:
    """Def-use lists name exactly the operands of ops that are in the module."""
    expected: Counter[tuple[int, int]] = Counter()
    values = []
    for op in module.walk():
        expected.update((id(op), index) for index in range(len(op.operands)))
        values += [*op.results, *(a for r in op.regions for b in r.blocks for a in b.args)]
    found: Counter[tuple[int, int]] = Counter()
    for value in values:
        for use in value.uses:
            assert use.operation.operands[use.index] is value
            assert _is_inside(use.operation, module), f"a leaked use by {use.operation.name}"
            found[id(use.operation), use.index] += 1
    assert found == expected


def _is_inside(op: Operation, module: ModuleOp) -> bool:
    parent: Operation | None = op
    while parent is not None and parent is not module:
        parent = parent.parent_op()
    return parent is module


def fired(remarks: Sequence[Remark]) -> list[Remark]:
    return [remark for remark in remarks if remark.kind == "fired"]


def level_of(remark: Remark) -> Numerics:
    return Numerics.parse(remark.contract.partition("(")[0])


@dataclass
class Program:
    """A function `main` under construction; `inputs` for its arguments."""

    label: str
    inputs: list[Array] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    results: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # So what a program holds depends neither on others nor on their order.
        RANDOM.bit_generator.state = np.random.PCG64(crc32(self.label.encode())).state

    def argument(self, kind: str, value: Array) -> str:
        name = f"%a{len(self.arguments)}"
        self.arguments.append(f"{name}: {kind}")
        self.inputs.append(value)
        return name

    def codes(self, q: str, values: Array, shape: Sequence[int] | None = None) -> str:
        """Codes given as integers of the storage's width, whatever the bounds of `q` are."""
        dims = list(values.shape if shape is None else shape)
        width = storage_of(q).width
        bits = self.argument(tensor(dims, f"i{width}"), as_signless(values, width))
        return self.op(f"quant.scast {bits}", tensor(dims, f"i{width}"), tensor(dims, q))

    def op(self, text: str, source: str, result: str, attributes: str = "") -> str:
        """`text : source to result`, for casts and rescales."""
        name = f"%{len(self.lines)}"
        self.lines.append(f"{name} = {text} {attributes}: {source} to {result}")
        return name

    def nn(self, text: str, operands: Sequence[str], result: str) -> str:
        """`nn.` ops with a function type."""
        name = f"%{len(self.lines)}"
        self.lines.append(f"{name} = nn.{text} : ({', '.join(operands)}) -> {result}")
        return name

    def constant(self, values: Array, q: str, element: str) -> str:
        """`element`: the type the numbers are written in (`i8`, `f32`)."""
        name = f"%{len(self.lines)}"
        held = tensor(values.shape, element)
        value = f"{dense(values)} : {held}"
        self.lines.append(f"{name} = nn.constant {value} : {tensor(values.shape, q)}")
        return name

    def returns(self, name: str, kind: str) -> Program:
        self.results.append((name, kind))
        return self

    @property
    def text(self) -> str:
        kinds = ", ".join(kind for _, kind in self.results)
        names = ", ".join(name for name, _ in self.results)
        body = "\n".join(f"  {line}" for line in self.lines)
        head = f"func.func @main({', '.join(self.arguments)}) -> ({kinds})"
        return f"{head} {{\n{body}\n  func.return {names} : {kinds}\n}}\n"


def tensor(shape: Sequence[int], element: str) -> str:
    return "tensor<" + "".join(f"{'?' if n < 0 else n}x" for n in shape) + element + ">"


def quant(storage: str, scale: float, zero: int = 0, expressed: str = "f32") -> str:
    return f"!quant.uniform<{storage}:{expressed}, {literal(scale)}:{zero}>"


def per_axis(
    storage: str, axis: int, pairs: Sequence[tuple[float, int]], expressed: str = "f32"
) -> str:
    listed = ",".join(f"{literal(s)}:{z}" for s, z in pairs)
    return f"!quant.uniform<{storage}:{expressed}:{axis}, {{{listed}}}>"


def literal(value: float) -> str:
    text = repr(float(value))
    mantissa, e, exponent = text.partition("e")
    return mantissa + ("" if "." in mantissa else ".0") + e + exponent


def storage_of(q: str) -> Storage:
    """The storage of a type made by `quant` or `per_axis`."""
    text = q.removeprefix("!quant.uniform<").partition(":f")[0].partition(":bf")[0]
    name, _, bounds = text.rstrip(">").partition("<")
    low, high = (int(b) for b in bounds.split(":")) if bounds else (None, None)
    return Storage.of(name, low, high)


def as_signless(values: Array, width: int) -> Array:
    dtype = np.dtype(f"i{max(8, 1 << (width - 1).bit_length()) // 8}")
    wide = values.astype(np.int64)
    half = 1 << (width - 1)
    return (((wide + half) & ((1 << width) - 1)) - half).astype(dtype)


def dense(values: Array) -> str:
    def shown(array: Array) -> str:
        if array.ndim:
            return "[" + ", ".join(shown(part) for part in array) + "]"
        number = array.item()
        if isinstance(number, float):
            if not np.isfinite(number):
                bits = array.view(f"u{array.dtype.itemsize}").item()
                return f"0x{bits:0{2 * array.dtype.itemsize}X}"
            return literal(number)
        return str(number)

    return f"dense<{shown(values)}>"


def all_codes(q: str) -> Array:
    """Every code of the storage type, also those outside narrowed bounds."""
    low, high = storage_of(q).full_range
    return np.arange(low, high + 1)


def evaluate(
    module: ModuleOp, ctx: QContext, inputs: Sequence[Array], floats: str = "ieee"
) -> list[Array]:
    given = [
        x.astype(np.float64) if floats == "real" and x.dtype.kind == "f" else x for x in inputs
    ]
    mode = "real" if floats == "real" else "ieee"
    return Interpreter(ctx, module, floats=mode, functions=KEPT).run(given)


def _kept(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    assert isinstance(op, NodeOp)
    return evaluate_node(op, operands, evaluation.ctx.blobs)


KEPT = {NodeOp.name: _kept}
"""How the interpreter runs nodes that are kept."""
