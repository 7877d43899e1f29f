"""Every composite op in its forms: kept whole, in pieces, and raised from its pieces again.

    python -m tools.docs composites > docs/reference/composites.md

All are on i8 with the same component qparams, ranges by min-max on the data that is measured on.
The cases are those of the registry: a composite of one operand needs no case of its own.
"""

# pyright: basic
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from qdialect.interpreter import Interpreter
from qdialect.ir.context import QContext, new_context
from qdialect.ir.ops import default_components
from qdialect.ir.ops.component_qparams import component_types, hold_types
from qdialect.ir.quant import UniformType
from qdialect.pipeline.registry import PassRegistry
from qdialect.pipeline.text import parse_pipeline
from qdialect.plugins.mlir.read import read_module, verify_module
from tests.support.components import codes_of, decibels, observed, quantized
from tests.support.components import qparams as observed_qparams

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """An op on `%x` of a shape, and constants `%c0`, ...."""

    text: str
    shape: Shape
    constants: tuple[Shape, ...] = ()
    result: Shape = ()
    #: whether it is found again where constants are folded in between
    raised: bool = True


def convolution(dims: int, transposed: bool = False) -> Case:
    name = f"conv_transpose{dims}d" if transposed else f"conv{dims}d"
    extent = 6 if transposed else 4
    weight = (3, 4, *(2,) * dims) if transposed else (4, 3, *(2,) * dims)
    result = (2, 4, *(extent,) * dims)
    return Case(f"{name} %x, %c0, %c1", (2, 3, *(5,) * dims), (weight, (4,)), result)


_CASES = {
    "fully_connected": Case("fully_connected %x, %c0, %c1", (3, 4), ((5, 4), (5,)), (3, 5)),
    **{f"conv{d}d": convolution(d) for d in (1, 2, 3)},
    **{f"conv_transpose{d}d": convolution(d, True) for d in (1, 2, 3)},
    "batch_norm": Case("batch_norm %x, %c0, %c1, %c2, %c3", (2, 3, 4), ((3,),) * 4),
    "layer_norm": Case("layer_norm %x, %c0, %c1 epsilon 0.125", (3, 8), ((8,), (8,))),
    "layer_norm without bias": Case("layer_norm %x, %c0 epsilon 0.125", (3, 8), ((8,),)),
    "rms_norm": Case("rms_norm %x, %c0 epsilon 0.125", (3, 8), ((8,),)),
    "softmax": Case("softmax %x", (3, 8)),
    "softmax axis": Case("softmax %x axis 1", (3, 4, 2)),
    "gelu": Case("gelu %x", (3, 8)),
    "gelu tanh": Case("gelu %x approximate tanh", (3, 8)),
    "hard_swish": Case("hard_swish %x", (3, 8)),
    "hard_sigmoid": Case("hard_sigmoid %x alpha 0.25 beta 0.375", (3, 8)),
    "swish": Case("swish %x", (3, 8)),
    "swish alpha": Case("swish %x alpha 1.5", (3, 8)),
    "prelu": Case("prelu %x, %c0", (2, 3, 4), ((3, 1),)),
    "lrn": Case("lrn %x size 3 alpha 0.5 beta 0.625 bias 2.0", (2, 6, 3)),
    "reduce_mean": Case("reduce_mean %x axes [1] keepdims false", (3, 8), (), (3,)),
    "attention": Case("attention %x, %x, %x scale 0.5", (1, 2, 3, 4)),
    "attention mask": Case("attention %x, %x, %x, %c0 scale 0.5", (1, 2, 3, 4), ((3, 3),)),
    "lstm": Case(
        "lstm %x, %c0, %c1, %c2 direction bidirectional",
        (3, 2, 4),
        ((2, 12, 4), (2, 12, 3), (2, 24)),
        (3, 2, 2, 3),
    ),
    # A state before the first step that is constant is folded with what it is multiplied by.
    "lstm states": Case(
        "lstm %x, %c0, %c1, %c2, %c3, %c4, %c5 direction reverse",
        (3, 2, 4),
        ((1, 12, 4), (1, 12, 3), (1, 24), (1, 2, 3), (1, 2, 3), (1, 9)),
        (3, 1, 2, 3),
        raised=False,
    ),
    "gru": Case("gru %x, %c0, %c1, %c2", (3, 2, 4), ((1, 9, 4), (1, 9, 3), (1, 18)), (3, 1, 2, 3)),
    "gru linear": Case(
        "gru %x, %c0, %c1, %c2 direction reverse linear_before_reset true",
        (3, 2, 4),
        ((1, 9, 4), (1, 9, 3), (1, 18)),
        (3, 1, 2, 3),
    ),
}


def tensor(shape: Shape) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}f32>"


def function(case: Case) -> str:
    rng, lines = np.random.default_rng(2), list[str]()
    kinds = [tensor(case.shape)] * case.text.count("%x")
    for n, shape in enumerate(case.constants):
        values = rng.integers(1, 64, shape) / 64 * rng.choice([-1, 1], shape)
        values = np.abs(values) if "batch_norm" in case.text and n == 3 else values
        kind = tensor(shape)
        bits = values.astype("<f4").tobytes().hex()
        lines.append(f'%c{n} = nn.constant dense<"0x{bits}"> : {kind} : {kind}')
        kinds.append(kind)
    result = tensor(case.result or case.shape)
    lines.append(f'%y = nn.{case.text} {{nn.key = "op"}} : ({", ".join(kinds)}) -> {result}')
    body = "\n".join(lines)
    head = f"func.func @main(%x: {tensor(case.shape)}) -> {result}"
    return f"{head} {{\n{body}\nreturn %y : {result}\n}}"


def composite(module: ModuleOp, ctx: QContext) -> list[Operation]:
    """The ops with roles of their own in a module."""
    table = ctx.components
    return [o for o in module.walk() if o.name in table and table[o.name].roles_of(o)]


def cases() -> dict[str, Case]:
    """A case for each composite of the registry, by name; those of one operand are on a matrix."""
    named = {f"nn.{case.text.split()[0]}" for case in _CASES.values()}
    others = (name.removeprefix("nn.") for name in default_components() if name not in named)
    return {**_CASES, **{name: Case(f"{name} %x", (3, 8)) for name in others}}


CASES = cases()


def data(case: Case) -> NDArray[np.float32]:
    """What a case is measured on."""
    return np.random.default_rng(9).normal(0, 1.5, case.shape).astype(np.float32)


@dataclass(frozen=True)
class Forms:
    """What the forms of a case give: dB against the float op, and the most steps by which codes of
    a form differ from those of the op kept whole. `lowered_again` is of the raised op, against
    the op lowered. `same` says whether the raised op has all component qparams."""

    pieces: int
    whole: float
    lowered: float
    lowered_steps: int
    raised: float = 0.0
    raised_steps: int = 0
    lowered_again: int = 0
    same: bool = False


def _run(module: ModuleOp, ctx: QContext, pipeline: str) -> None:
    for _, instance in PassRegistry().build(parse_pipeline(pipeline)):
        instance.apply(ctx, module)
    verify_module(module, ctx)


def measured(case: Case) -> Forms:
    """Build the forms of a case, and run them."""
    ctx = new_context()
    module = read_module(function(case), ctx)
    verify_module(module, ctx)
    x = data(case)
    (expected,) = Interpreter(ctx, module).run([x])
    types, source = observed(module, ctx, x), observed_qparams(x)
    if case.text.startswith("lrn"):
        types["op"] = source
    (op,) = composite(module, ctx)
    given = {key.removeprefix("op/"): kind for key, kind in types.items() if key != "op"}
    hold_types(op, given)

    def form(of: ModuleOp, qparams: dict[str, UniformType], lower: bool) -> NDArray[np.int8]:
        keyed = {"op": types["op"], **{f"op/{role}": kind for role, kind in qparams.items()}}
        candidate = quantized(of, ctx, source, keyed)
        if lower:
            _run(candidate, ctx, "lower-composites{numerics=relaxed}")
            assert not composite(candidate, ctx)
        (found,) = Interpreter(ctx, candidate).run([codes_of(x, source)])
        return found

    def steps(one: NDArray[np.int8], other: NDArray[np.int8]) -> int:
        return int(np.abs(one.astype(int) - other.astype(int)).max())

    def error(codes: NDArray[np.int8]) -> float:
        return decibels(codes, types["op"], expected)

    whole, lowered = form(module, given, False), form(module, given, True)
    found = Forms(len(given), error(whole), error(lowered), steps(lowered, whole))
    back = module.clone()
    _run(back, ctx, "lower-composites{numerics=ties}")
    assert not composite(back, ctx)
    _run(back, ctx, "raise-composites{numerics=ties},dce")
    (raised,) = composite(back, ctx)
    kept = component_types(raised)
    again, lowered_again = form(back, kept, False), form(back, kept, True)
    return replace(
        found,
        raised=error(again),
        raised_steps=steps(again, whole),
        lowered_again=steps(lowered_again, lowered),
        same=raised.name == op.name and kept == given,
    )


_HEAD = """# Composite ops in their forms

`python -m tools.docs composites` writes this page from the registry of composites. Each op is
quantized to i8 with component qparams. It is kept whole, lowered to its pieces, or raised again
from float pieces with qparams. The columns *whole*, *lowered* and *raised* are the error against
the float op, in dB. The steps are the largest difference of codes from those of the op kept whole.
*Pieces* counts component qparams. The raised op has all of them, and lowered again it gives the
codes of the first lowering. Ops raised from pieces on codes have the same qparams and lower to the
same text (tests/passes/test_every_composite.py). A batch norm comes back with variance 1 and
epsilon 0, and an LSTM with one of its two biases.

| op | pieces | whole | lowered | raised | lowered, steps | raised, steps |
|---|--:|--:|--:|--:|--:|--:|
"""


def page() -> str:
    """The page, as text."""
    rows = []
    for name, case in CASES.items():
        f = measured(case)
        assert f.same and not f.lowered_again, name
        errors = (f"{error:.1f}" for error in (f.whole, f.lowered, f.raised))
        cells = (name, f.pieces, *errors, f.lowered_steps, f.raised_steps)
        rows.append(f"| {' | '.join(map(str, cells))} |\n")
    return _HEAD + "".join(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the page."""
    print(page(), end="")
    return 0
