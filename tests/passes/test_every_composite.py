"""Every composite op, one by one: lowered in floats, lowered on codes, and raised again."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path

import numpy as np
import pytest
from rewrite_support import apply, parse
from xdsl.dialects.builtin import ModuleOp

from qdialect.algebra.qparams import QParams
from qdialect.interpreter import Interpreter
from qdialect.ir.context import QContext
from qdialect.ir.ops import default_components, keys_of
from qdialect.ir.ops.component_qparams import component_types, hold_types
from qdialect.ir.quant import UniformType, quant_element
from tests.support.components import observed, quantized, sqnr
from tests.support.components import qparams as observed_qparams
from tests.support.composites import CASES, Case, composite, data, function, measured


def output(module: ModuleOp, ctx: QContext, case: Case) -> np.ndarray:
    (found,) = Interpreter(ctx, module).run([data(case)])
    return found


def qparams(module: ModuleOp, ctx: QContext) -> Mapping[str, UniformType]:
    """Some qparams for every piece, and of the pieces of pieces."""
    (op,) = composite(module, ctx)
    components = ctx.components[op.name]
    roles = (*components.roles_of(op), *components.inner_roles(op, ctx.components))
    scales = {role: QParams.per_tensor("i8", 2.0**-6 * (n + 1), n) for n, role in enumerate(roles)}
    return {role: UniformType(kind) for role, kind in scales.items()}


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.raised])
def test_forms(name: str) -> None:
    """Raised from its pieces, an op has its component qparams, the codes of the op kept whole, and
    in pieces again those of its pieces. A batch norm has its scale in the factor."""
    found = measured(CASES[name])
    assert found.same
    assert found.raised_steps <= (name == "batch_norm")
    assert found.lowered_again <= (name == "batch_norm")
    assert found.lowered > found.whole - 7 and found.whole > 25


def test_the_page_has_every_composite() -> None:
    path = Path(__file__).parents[2] / "docs" / "reference" / "composites.md"
    rows = [line.split("|")[1].strip() for line in path.read_text("utf-8").splitlines()[13:]]
    assert rows == [*CASES], "python -m tools.docs composites > docs/reference/composites.md"


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


#: what does not come back, by case: a batch norm is lowered to one factor per channel, which is
#: its scale after that, and nothing tells the variance and the epsilon that it was made of
LOST = {"batch_norm": {"epsilon"}}


@pytest.mark.parametrize("form", ["floats", "codes", "codes, weights per axis"])
@pytest.mark.parametrize("name", CASES)
def test_lowered_raised_lowered(name: str, form: str) -> None:
    """The same op comes back, with its operands, key and component qparams; its pieces are those
    that it had, to the letter."""
    case = CASES[name]
    module, ctx = parse(function(case))
    if form == "floats":
        hold_types(*composite(module, ctx), qparams(module, ctx))
    else:
        x = data(case)
        types, source = observed(module, ctx, x), observed_qparams(x)
        types["op"] = source if case.text.startswith("lrn") else types["op"]
        kept_alike = ctx.components[composite(module, ctx)[0].name].as_result
        types |= {f"op/{role}": types["op"] for role in kept_alike}
        module = quantized(module, ctx, source, types, per_axis=form != "codes")
    apply(module, ctx, "dce,cse")
    (op,) = composite(module, ctx)
    whole = str(module)
    wanted = op.name, dict(op.properties), keys_of(op), component_types(op), op.result_types
    level = "ties" if form == "floats" else "relaxed"
    lower = f"lower-composites{{numerics={level}}},dce"
    apply(module, ctx, lower)
    assert composite(module, ctx) == []
    lowered = str(module)
    apply(module, ctx, f"raise-composites{{numerics={level}}},dce,cse")
    (found,) = composite(module, ctx)
    kept = found.name, dict(found.properties), keys_of(found), component_types(found)
    lost = {key for key, value in found.properties.items() if op_differs(wanted[1], key, value)}
    assert lost == LOST.get(name, set())
    if not lost:
        assert (*kept, found.result_types) == wanted
        if case.text.split()[0] != "lstm":  # whose two biases are summed
            assert constants(whole) == constants(str(module))
    assert kept[2:] == wanted[2:4]
    apply(module, ctx, lower)
    assert str(module) == lowered


def op_differs(properties: Mapping[str, object], key: str, value: object) -> bool:
    return properties.get(key) != value


def constants(text: str) -> set[str]:
    """The constants of a module, without their names."""
    lines = (line.partition(" = ") for line in text.splitlines() if "nn.constant" in line)
    return {line[2].partition(" {nn.key")[0] for line in lines}


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
