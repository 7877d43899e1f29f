"""Every composite op, one by one: lowered in floats, lowered on codes, and raised again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
import pytest
from rewrite_support import apply, parse
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from qdialect.context import QContext
from qdialect.ops import default_components, keys_of
from qdialect.ops.component_qparams import component_types, hold_types
from qdialect.qparams import QParams
from qdialect.quant import UniformType, quant_element
from qdialect.reference import Interpreter
from tests.support.components import observed, quantized, sqnr
from tests.support.components import qparams as observed_qparams

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """An op on `%x` of a shape, and constants `%c0`, ...; whether its pieces are found again."""

    text: str
    shape: Shape
    constants: tuple[Shape, ...] = ()
    result: Shape = ()
    raised: bool = True


def convolution(dims: int, transposed: bool = False) -> Case:
    name = f"conv_transpose{dims}d" if transposed else f"conv{dims}d"
    extent = 6 if transposed else 4
    weight = (3, 4, *(2,) * dims) if transposed else (4, 3, *(2,) * dims)
    result = (2, 4, *(extent,) * dims)
    return Case(f"{name} %x, %c0, %c1", (2, 3, *(5,) * dims), (weight, (4,)), result)


CASES = {
    "fully_connected": Case("fully_connected %x, %c0, %c1", (3, 4), ((5, 4), (5,)), (3, 5)),
    **{f"conv{d}d": convolution(d) for d in (1, 2, 3)},
    **{f"conv_transpose{d}d": convolution(d, True) for d in (1, 2, 3)},
    "batch_norm": Case("batch_norm %x, %c0, %c1, %c2, %c3", (2, 3, 4), ((3,),) * 4),
    "layer_norm": Case("layer_norm %x, %c0, %c1 epsilon 0.125", (3, 8), ((8,), (8,))),
    "layer_norm without bias": Case("layer_norm %x, %c0 epsilon 0.125", (3, 8), ((8,),)),
    "softmax": Case("softmax %x", (3, 8)),
    "softmax axis": Case("softmax %x axis 1", (3, 4, 2)),
    "gelu": Case("gelu %x", (3, 8)),
    "gelu tanh": Case("gelu %x approximate tanh", (3, 8)),
    "hard_swish": Case("hard_swish %x", (3, 8)),
    "hard_sigmoid": Case("hard_sigmoid %x alpha 0.25 beta 0.375", (3, 8)),
    "swish": Case("swish %x", (3, 8)),
    "swish alpha": Case("swish %x alpha 1.5", (3, 8)),
    "lrn": Case("lrn %x size 3 alpha 0.5 beta 0.625 bias 2.0", (2, 6, 3)),
    "reduce_mean": Case("reduce_mean %x axes [1] keepdims false", (3, 8), (), (3,)),
    "attention": Case("attention %x, %x, %x scale 0.5", (1, 2, 3, 4)),
    "attention mask": Case("attention %x, %x, %x, %c0 scale 0.5", (1, 2, 3, 4), ((3, 3),)),
    "lstm": Case(
        "lstm %x, %c0, %c1, %c2, %c3, %c4, %c5 direction bidirectional",
        (3, 2, 4),
        ((2, 12, 4), (2, 12, 3), (2, 24), (2, 2, 3), (2, 2, 3), (2, 9)),
        (3, 2, 2, 3),
        raised=False,
    ),
    "gru": Case(
        "gru %x, %c0, %c1, %c2", (3, 2, 4), ((1, 9, 4), (1, 9, 3), (1, 18)), (3, 1, 2, 3), False
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


def output(module: ModuleOp, ctx: QContext, case: Case) -> np.ndarray:
    x = np.random.default_rng(9).normal(0, 1.5, case.shape).astype(np.float32)
    (found,) = Interpreter(ctx, module).run([x])
    return found


def qparams(module: ModuleOp, ctx: QContext) -> Mapping[str, UniformType]:
    """Some qparams for every piece, and of the pieces of pieces."""
    (op,) = composite(module, ctx)
    components = ctx.components[op.name]
    roles = (*components.roles_of(op), *components.inner_roles(op, ctx.components))
    scales = {role: QParams.per_tensor("i8", 2.0**-6 * (n + 1), n) for n, role in enumerate(roles)}
    return {role: UniformType(kind) for role, kind in scales.items()}


def test_every_composite_is_here() -> None:
    assert {f"nn.{case.text.split()[0]}" for case in CASES.values()} == set(default_components())


@pytest.mark.parametrize("name", CASES)
def test_floats(name: str) -> None:
    """Four units in the last place of the largest result, for sums that are taken in
    another order and constants that are rounded."""
    case = CASES[name]
    module, ctx = parse(function(case))
    before = output(module, ctx, case)
    apply(module, ctx, "lower-composites{numerics=ties}")
    assert composite(module, ctx) == []
    after = output(module, ctx, case)
    np.testing.assert_allclose(after, before, rtol=0, atol=4 * 2.0**-23 * np.abs(before).max())


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.raised])
def test_raised(name: str) -> None:
    """The same op, with its key and all component qparams, and no other."""
    case = CASES[name]
    module, ctx = parse(function(case))
    (op,) = composite(module, ctx)
    hold_types(op, qparams(module, ctx))
    # A batch norm has its scale in the factor.
    properties = None if name == "batch_norm" else op.properties
    wanted = (op.name, properties, keys_of(op), component_types(op))
    before = output(module, ctx, case)
    apply(module, ctx, "lower-composites{numerics=ties},fold-constants{numerics=ties}")
    apply(module, ctx, "raise-composites{numerics=ties}")
    (found,) = composite(module, ctx)
    properties = None if name == "batch_norm" else found.properties
    assert (found.name, properties, keys_of(found), component_types(found)) == wanted
    after = output(module, ctx, case)
    np.testing.assert_allclose(after, before, rtol=0, atol=4 * 2.0**-23 * np.abs(before).max())
    assert "nn.piece_keys" not in found.attributes


@pytest.mark.parametrize("name", CASES)
def test_codes(name: str) -> None:
    """Sums are 32-bit accumulators of derived scale, what is left is on codes, and the last
    op gives the qparams of the result."""
    case = CASES[name]
    module, ctx = parse(function(case))
    x = np.random.default_rng(9).normal(0, 1.5, case.shape).astype(np.float32)
    (wanted,) = Interpreter(ctx, module).run([x])
    types, source = observed(module, ctx, x), observed_qparams(x)
    if case.text.startswith("lrn"):
        types["op"] = source
    candidate = quantized(module, ctx, source, types)
    (op,) = composite(candidate, ctx)
    sums = ctx.components[op.name].sums
    apply(candidate, ctx, "lower-composites{numerics=relaxed}")
    assert composite(candidate, ctx) == []
    inner = [o for o in candidate.walk() if o.name.startswith("nn.") and o.name != "nn.constant"]
    elements = [quant_element(result.type) for o in inner for result in o.results]
    assert None not in elements
    last = next(o for o in reversed(list(candidate.walk())) if keys_of(o) == ("op",))
    assert quant_element(last.results[0].type) == types["op"]
    for o in inner:
        (role,) = {key.removeprefix("op/").partition("@")[0] for key in keys_of(o)} or {""}
        kind = quant_element(o.results[0].type)
        assert kind is not None
        if role in sums:
            assert (kind.qparams.storage.spelling, kind.qparams.zero_point) == ("i32", 0)
            above = [quant_element(v.type) for v in o.operands]
            product = prod(e.qparams.scale for e in above if e is not None)
            assert kind.qparams.scale == product
    assert sqnr(candidate, ctx, x, source, wanted) > 20
