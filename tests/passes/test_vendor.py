"""Declarations: what contradicts itself, and a vendor's ops taking part in the passes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from rewrite_support import Array, apply, fired, parse
from xdsl.dialects.builtin import TensorType, i32
from xdsl.ir import Attribute, Dialect, Operation
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryWriteEffect, Pure

from qdialect.algebra.qparams.maps import Flip
from qdialect.errors import QError, UsageError
from qdialect.interpreter import Evaluation, Interpreter
from qdialect.ir.behaviors import (
    Accumulator,
    Behavior,
    BehaviorRegistry,
    Clamp,
    Comparison,
    Computation,
    Contraction,
    Lookup,
    Movement,
    OrderPreserving,
    Port,
    PortKind,
    axes,
)
from qdialect.ir.context import QContext, new_context
from qdialect.passes import PASSES, load
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.mlir.write import module_text
from qdialect.plugins.tosa.dialect import PROPAGATE
from qdialect.plugins.tosa.lowering.elementwise import narrowed
from qdialect.plugins.tosa.lowering.rescale import widened
from qdialect.targets.base import Target

TIED = Port("input", PortKind.TIED)
RESULT = Port("result", PortKind.TIED)
INPUT = Port("input")
BIAS = Port("bias", PortKind.BIAS)


def zero(op: Operation) -> int:
    return 0


CONTRADICTIONS: list[tuple[str, type[Behavior], dict[str, object]]] = [
    ("no result port", Behavior, {"operands": (INPUT,), "results": ()}),
    ("two operands have the same role", Behavior, {"operands": (INPUT, INPUT)}),
    ("a movement op needs a tied operand", Movement, {"operands": (INPUT,), "movement": zero}),
    ("tied ports need an operand and a result", Behavior, {"operands": (TIED,)}),
    (
        "tied ports need an operand and a result",
        Computation,
        {"operands": (INPUT,), "results": (RESULT,)},
    ),
    ("needs tied ports", OrderPreserving, {"operands": (INPUT,)}),
    ("needs tied ports", Clamp, {"operands": (INPUT,), "clamp": zero}),
    ("has tied operands", Comparison, {"operands": (INPUT,)}),
    ("nonzero names operands", Computation, {"operands": (INPUT,), "nonzero": (1,)}),
    ("variadic without an operand", Behavior, {"operands": (), "variadic": True}),
    (
        "names operands the op does not have",
        Contraction,
        {"operands": (INPUT,), "accumulator": Accumulator(0, 1, None, zero, zero, zero)},
    ),
    (
        "names operands the op does not have",
        Contraction,
        {"operands": (INPUT, BIAS), "accumulator": Accumulator(0, 0, 1, zero, zero, zero)},
    ),
    (
        "is not a bias port",
        Contraction,
        {
            "operands": (INPUT, Port("w"), Port("b")),
            "accumulator": Accumulator(0, 1, 2, zero, zero, zero),
        },
    ),
]


@pytest.mark.parametrize(("problem", "kind", "fields"), CONTRADICTIONS)
def test_a_declaration_that_contradicts_itself(
    problem: str, kind: type[Behavior], fields: dict[str, object]
) -> None:
    with pytest.raises(QError, match=f"behavior of 'acme.x': .*{problem}") as caught:
        kind("acme.x", **fields)  # type: ignore[arg-type]
    assert caught.value.code == "bad-behavior"


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        (Behavior, "accumulator"),
        (Behavior, "order_preserving"),
        (Movement, "arithmetic"),
        (Movement, "compared_constants"),
        (OrderPreserving, "is_identity"),
        (Contraction, "movement"),
        (Computation, "clamp"),
        (Clamp, "requantizes_inputs"),
        (Lookup, "gain"),
    ],
)
def test_a_kind_has_no_answer_that_contradicts_it(kind: type[Behavior], field: str) -> None:
    assert field in {f.name for f in fields(kind)}  # a pass may ask
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{field}'"):
        kind("acme.x", (TIED,), (RESULT,), **{field: zero})  # type: ignore[arg-type]


def test_registering_and_overriding() -> None:
    ctx, other = new_context(), new_context()
    mine = Behavior("nn.sigmoid", (Port("input", axes=axes(0)),))
    ctx.behaviors.register(mine)

    def is_mine(registry: BehaviorRegistry) -> bool:
        found = registry.named("nn.sigmoid")
        return found is not None and found.pointwise is None

    assert is_mine(ctx.behaviors) and is_mine(ctx.clone().behaviors)
    assert not is_mine(other.behaviors)
    extended = other.behaviors.with_overrides([mine])
    assert is_mine(extended) and extended.names() == other.behaviors.names()
    assert not is_mine(extended.with_overrides([]))


# -- a vendor's dialect -----------------------------------------------------------------


class Vendor(IRDLOperation):
    input = operand_def(TensorType.constr())
    result = result_def(TensorType.constr())
    assembly_format = "$input attr-dict `:` type($input) `->` type($result)"


@irdl_op_definition
class Mirror(Vendor):
    """Reverses the last dimension."""

    name = "acme.mirror"
    traits = traits_def(Pure())


@irdl_op_definition
class Floor(Vendor):
    """max(x, -1)"""

    name = "acme.floor"
    traits = traits_def(Pure())


@irdl_op_definition
class Square(Vendor):
    """x * x"""

    name = "acme.square"
    traits = traits_def(Pure())


@irdl_op_definition
class Negate(Vendor):
    """-x on the same qparams: tied, but no rescale may pass it."""

    name = "acme.negate"
    traits = traits_def(Pure())


@irdl_op_definition
class Log(Vendor):
    """x, and a line in somebody's log."""

    name = "acme.log"
    traits = traits_def(MemoryWriteEffect())


@irdl_op_definition
class Round(Vendor):
    """An op whose class says nothing about effects."""

    name = "acme.round"


@irdl_op_definition
class Ceil(Vendor):
    """min(x, 1), and nothing about effects."""

    name = "acme.ceil"


ACME = Dialect("acme", [Mirror, Floor, Square, Negate, Log, Round, Ceil])
BEHAVIORS = [
    Movement("acme.mirror", (TIED,), (RESULT,), movement=lambda op: Flip((0,))),
    OrderPreserving("acme.floor", (TIED,), (RESULT,), compared_constants=lambda op: (-1.0,)),
    Behavior("acme.square", (INPUT,)),
    Behavior("acme.negate", (TIED,), (RESULT,)),
    Behavior("acme.log", (INPUT,)),
    Behavior("acme.round", (INPUT,)),
    OrderPreserving("acme.ceil", (TIED,), (RESULT,), compared_constants=lambda op: (1.0,)),
]


def session(*, declared: bool = True) -> QContext:
    ctx = new_context()
    ctx.load_dialect(ACME)
    for behavior in BEHAVIORS if declared else ():
        ctx.behaviors.register(behavior)
    return ctx


PROGRAM = """
!a = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<4x!quant.uniform<u8:f32, 0.25:128>>
!f = tensor<4xf32>
func.func @main(%x: !a) -> !b {{
{body}
}}
"""
SUNK = """
  %0 = quant.rescale %x : !a to !b
  %1 = acme.{op} %0 : !b -> !b
  func.return %1 : !b"""
REGION = """
  %0 = quant.dcast %x : !a to !f
  %1 = acme.{op} %0 : !f -> !f
  %2 = quant.qcast %1 : !f to !b
  func.return %2 : !b"""


def run(body: str, op: str, pipeline: str, *, declared: bool = True) -> tuple[list[str], str]:
    """The rules that fired, and the names of the ops that are left."""
    module, ctx = parse(PROGRAM.format(body=body.format(op=op)), session(declared=declared))
    rules = [remark.rule for remark in fired(apply(module, ctx, pipeline))]
    left = [o.name for o in module.walk() if o.name.startswith(("acme.", "quant."))]
    return rules, " ".join(left)


def test_a_movement_and_an_order_preserving_op_let_rescales_pass() -> None:
    for op in ("mirror", "floor"):
        assert run(SUNK, op, "sink-rescale") == (
            ["sink-through-tied"],
            f"acme.{op} quant.rescale",
        )


def test_they_become_integer_inside_an_island() -> None:
    for op in ("mirror", "floor"):
        assert run(REGION, op, "integerize") == (
            ["sink-dequantize", "quantize-of-dequantize"],
            f"acme.{op} quant.rescale",
        )


def test_a_requantizing_op_becomes_the_quantized_op() -> None:
    assert run(REGION, "square", "integerize") == (["integerize-op"], "acme.square")


def test_tied_alone_lets_nothing_pass() -> None:
    assert run(SUNK, "negate", "sink-rescale") == ([], "quant.rescale acme.negate")
    kept = "quant.dcast acme.negate quant.qcast"
    assert run(REGION, "negate", "integerize") == ([], kept)


def test_an_op_with_effects_is_left_alone() -> None:
    module, ctx = parse(PROGRAM.format(body=REGION.format(op="log")), session())
    remarks = apply(module, ctx, "integerize,cse,dce")
    assert [(r.rule, r.code) for r in remarks] == [("integerize-op", "effects")]


def test_a_declaration_is_enough_without_traits() -> None:
    assert run(REGION, "round", "integerize") == (["integerize-op"], "acme.round")
    assert run(SUNK, "ceil", "sink-rescale") == (["sink-through-tied"], "acme.ceil quant.rescale")


def test_without_a_declaration_nothing_is_assumed() -> None:
    for op in ("mirror", "square"):
        assert run(REGION, op, "integerize", declared=False)[0] == []
        assert run(SUNK, op, "sink-rescale", declared=False)[0] == []


def test_an_unregistered_op_stays_and_the_rest_goes_on() -> None:
    body = """
  %0 = quant.rescale %x : !a to !a
  %1 = "other.op"(%0) : (!a) -> !b
  func.return %1 : !b"""
    ctx = new_context(allow_unregistered=True)
    module, _ = parse(PROGRAM.format(body=body), ctx)
    apply(module, ctx, "integerize,fold-rescale,sink-rescale,combine-rescale,canonicalize,cse,dce")
    text = module_text(module, ctx)
    assert '"other.op"' in text and "quant.rescale" not in text


def test_a_vendor_op_is_judged_with_its_own_function() -> None:
    def mirror(op: Operation, xs: Sequence[Array], _: Evaluation) -> list[Array]:
        return [xs[0][::-1]]

    module, ctx = parse(PROGRAM.format(body=SUNK.format(op="mirror")), session())
    codes = [np.array([-128, 0, 3, 127], np.int8)]
    functions = {"acme.mirror": mirror}
    before = Interpreter(ctx, module, functions=functions).run(codes)
    apply(module, ctx, "sink-rescale")
    after = Interpreter(ctx, module, functions=functions).run(codes)
    assert np.array_equal(before[0], after[0])


def test_its_ops_become_tosa_by_their_index_map_or_a_lowering_of_theirs() -> None:
    body = """
  %0 = acme.mirror %x : !a -> !a
  %1 = acme.floor %0 : !a -> !a
  func.return %1 : !a"""

    def floor(e: Any, op: Operation, operands: Sequence[Any]) -> Any:
        (x,) = operands
        if x.params.zero_point != 3:
            raise Unlowerable("level", "no code stands for its floor")
        bound = e.const(np.full((1,), round(-1.0 / x.params.scale), np.int32), i32)
        out = e.op("maximum", [widened(e, x, x.order), bound], [4], i32, nan_mode=PROPAGATE)
        return e.result(narrowed(e, out, x.params), x.order, x.params, x.shape)

    def lowered(text: str) -> str:
        module, ctx = parse(text, session())
        ctx.lowerings["tosa"] = {"acme.floor": floor}
        apply(module, ctx, "convert-nn-to-tosa")
        return module_text(module, ctx)

    program = PROGRAM.format(body=body).replace("-> !b {", "-> !a {")
    # By its declared index map, and by the lowering that the session has for it.
    assert re.search(r"tosa.reverse.*tosa.rescale.*tosa.maximum", lowered(program), re.S)
    with pytest.raises(QError, match=r"'acme.floor' cannot become TOSA: no code stands for"):
        lowered(program.replace("0.5:3", "0.5:4"))


# -- a target's word --------------------------------------------------------------------


class NoUnsigned(Target):
    """Runs no op on unsigned codes."""

    def refuses(
        self, op: Operation, operands: Sequence[Attribute], results: Sequence[Attribute]
    ) -> str | None:
        return "no unsigned codes" if any("u8" in str(t) for t in (*operands, *results)) else None


def test_the_target_is_asked_first() -> None:
    module, ctx = parse(PROGRAM.format(body=REGION.format(op="square")), session())
    ctx.target = NoUnsigned("npu", "signed only")
    (remark,) = apply(module, ctx, "integerize")
    assert (remark.kind, remark.code, remark.reason) == (
        "refused",
        "target",
        "npu: no unsigned codes",
    )


# -- options ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [e.name for e in PASSES.values() if any(o[0] == "numerics" for o in e.options)]
)
def test_an_unknown_level_is_an_error(name: str) -> None:
    module, ctx = parse("builtin.module {}")
    with pytest.raises(UsageError, match="unknown numerics level 'roughly'") as caught:
        load(name)()(numerics="roughly").apply(ctx, module)  # type: ignore[call-arg]
    assert caught.value.code == "unknown-level"


def test_a_rounding_that_does_not_exist_is_an_error() -> None:
    text = """
!q = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
func.func @main(%x: !q) -> !q {
  %0 = "nn.tanh"(%x) <{rounding = "towards_me"}> : (!q) -> !q
  func.return %0 : !q
}"""
    with pytest.raises(QError, match="rounding must be one of half_even, half_away"):
        parse(text)
