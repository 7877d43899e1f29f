"""LSTM and GRU raised from the steps that they were written as."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rewrite_support import apply, parse
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from qdialect.algebra.qparams import QParams
from qdialect.interpreter import Interpreter
from qdialect.ir.context import QContext
from qdialect.ir.ops import MulOp, SigmoidOp, constant_array, constant_of, make_constant
from qdialect.ir.ops.component_qparams import component_types, hold_types
from qdialect.ir.ops.keys import KEY, QPARAMS
from qdialect.ir.quant import UniformType

LOWER = "lower-composites{numerics=ties},fold-constants{numerics=ties},canonicalize,cse,dce"
RAISE = "raise-composites{numerics=ties},dce"
STEPS, BATCH, GIVEN, HIDDEN = 4, 2, 3, 5


def f32(*shape: int) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}f32>"


def layer(
    kind: str,
    direction: str = "forward",
    states: str = "",
    lengths: str = "",
    peepholes: bool = False,
    last: int = 0,
    linear: bool = False,
) -> str:
    """A function of one layer; `states` and `lengths` are `input`, `zero` or `constant`."""
    rng, lines = np.random.default_rng(4), list[str]()
    dirs, gates = 1 + (direction == "bidirectional"), {"lstm": 4, "gru": 3}[kind]
    arguments = [("%x", f32(STEPS, BATCH, GIVEN))]
    operands = [*arguments]

    def constant(array: np.ndarray[Any, Any], text: str) -> None:
        name = f"%c{len(lines)}"
        bits = array.tobytes().hex()
        lines.append(f'{name} = nn.constant dense<"0x{bits}"> : {text} : {text}')
        operands.append((name, text))

    rows = gates * HIDDEN
    for shape in ((dirs, rows, GIVEN), (dirs, rows, HIDDEN), (dirs, 2 * rows)):
        constant(rng.normal(size=shape).astype("<f4") * 0.5, f32(*shape))
    for name in ("%h", "%c")[: 2 if kind == "lstm" else 1] if states else ():
        if states == "input":
            arguments.append((name, f32(dirs, BATCH, HIDDEN)))
            operands.append(arguments[-1])
        else:
            constant(np.zeros((dirs, 1, HIDDEN), "<f4"), f32(dirs, 1, HIDDEN))
    if peepholes:
        constant(rng.normal(size=(dirs, 3 * HIDDEN)).astype("<f4"), f32(dirs, 3 * HIDDEN))
    if lengths == "input":
        arguments.append(("%l", f"tensor<{BATCH}xi32>"))
        operands.append(arguments[-1])
    elif lengths:
        constant(np.array([2, 3], "<i4"), f"tensor<{BATCH}xi32>")
    state = f32(dirs, BATCH, HIDDEN)
    results = [f32(STEPS, dirs, BATCH, HIDDEN), *[state] * last]
    names = ", ".join(name for name, _ in operands)
    text = f"nn.{kind} {names} direction {direction}" + f" last_states {last}" * bool(last)
    text += " linear_before_reset true" * linear
    made = ", ".join(f"%y{n}" for n in range(len(results)))
    kinds = ", ".join(text for _, text in operands)
    lines.append(f'{made} = {text} {{nn.key = "op"}} : ({kinds}) -> ({", ".join(results)})')
    head = ", ".join(f"{name}: {text}" for name, text in arguments)
    body = "\n".join(lines)
    given = ", ".join(results)
    return f"func.func @main({head}) -> ({given}) {{\n{body}\nreturn {made} : {given}\n}}"


def layers(module: ModuleOp) -> list[Operation]:
    return [op for op in module.walk() if op.name in ("nn.lstm", "nn.gru")]


def run(module: ModuleOp, ctx: QContext) -> list[Any]:
    rng = np.random.default_rng(7)
    function = Interpreter(ctx, module)
    kinds = [str(argument.type) for argument in function.function().body.block.args]
    shapes = [[int(n) for n in kind.split("<")[1].split("x")[:-1]] for kind in kinds]
    arrays: list[Any] = [rng.normal(size=shape).astype("f4") for shape in shapes]
    if "xi32" in kinds[-1]:
        arrays[-1] = np.array([1, 4], "i4")
    return function.run(arrays)


CASES: list[dict[str, Any]] = [
    {"kind": "lstm"},
    {"kind": "lstm", "direction": "reverse", "last": 2},
    {
        "kind": "lstm",
        "direction": "bidirectional",
        "states": "zero",
        "last": 1,
        "lengths": "constant",
    },
    {"kind": "lstm", "states": "input", "last": 2},
    {"kind": "lstm", "states": "zero", "peepholes": True},
    {
        "kind": "lstm",
        "direction": "bidirectional",
        "states": "input",
        "peepholes": True,
        "lengths": "input",
        "last": 2,
    },
    {"kind": "gru", "direction": "reverse", "states": "input", "last": 1},
    {"kind": "gru", "direction": "bidirectional", "lengths": "input", "states": "zero", "last": 1},
    {"kind": "gru", "linear": True, "direction": "bidirectional", "states": "input"},
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_layer_comes_back(case: dict[str, Any]) -> None:
    module, ctx = parse(layer(**case))
    (op,) = layers(module)
    roles = ctx.components[op.name].roles_of(op)
    types = {
        role: UniformType(QParams.per_tensor("i8", 2.0**-6 * (n + 1), n))
        for n, role in enumerate(roles)
    }
    hold_types(op, types)
    before = run(module, ctx)
    apply(module, ctx, LOWER)
    assert not layers(module)
    apply(module, ctx, RAISE)
    (found,) = layers(module)
    assert found.name == op.name and len(found.results) == len(op.results)
    assert found.attributes[KEY] == op.attributes[KEY]
    for name in ("direction", "last_states"):
        assert found.properties[name] == op.properties[name]
    results = ctx.components[op.name].result_roles(op)
    pieces = {role: kind for role, kind in types.items() if role not in results}
    assert {role: component_types(found)[role] for role in pieces} == pieces
    assert "nn.piece_keys" not in found.attributes
    for one, other in zip(before, run(module, ctx), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)


def steps(**case: Any) -> tuple[ModuleOp, QContext]:
    module, ctx = parse(layer(**case))
    apply(module, ctx, LOWER)
    return module, ctx


def test_a_step_that_differs_is_no_layer() -> None:
    module, ctx = steps(kind="lstm")
    biased: list[Any] = [
        op
        for op in module.walk()
        if op.name == "nn.add" and any(constant_of(value) for value in op.operands)
    ]
    add = biased[-1]
    constant: Any = next(constant_of(value) for value in add.operands if constant_of(value))
    array = constant_array(constant, ctx.blobs) + np.float32(0.25)
    new = make_constant(array, constant.result.type.element_type, ctx.blobs)
    add.parent.insert_op_before(new, add)
    add.operands = [new.result if v.owner is constant else v for v in add.operands]
    before = run(module, ctx)
    apply(module, ctx, RAISE)
    assert not layers(module)
    np.testing.assert_array_equal(run(module, ctx)[0], before[0])


def test_a_gate_used_elsewhere_keeps_the_steps() -> None:
    module, ctx = steps(kind="gru")
    gate = next(op for op in module.walk() if isinstance(op, SigmoidOp))
    block = gate.parent
    end: Any = block.last_op
    product = MulOp(gate.results[0], gate.results[0])
    block.insert_op_before(product, end)
    end.operands = [*end.operands, product.results[0]]
    block.parent_op().update_function_type()
    remarks = apply(module, ctx, RAISE)
    assert not layers(module)
    assert any("also used elsewhere" in remark.reason for remark in remarks)


def test_steps_of_different_qparams_give_none() -> None:
    module, ctx = parse(layer("lstm"))
    (op,) = layers(module)
    roles = ctx.components[op.name].roles_of(op)
    kind = UniformType(QParams.per_tensor("i8", 0.5, 0))
    hold_types(op, dict.fromkeys(roles, kind))
    apply(module, ctx, LOWER)
    gate = [op for op in module.walk() if isinstance(op, SigmoidOp)][3]
    gate.attributes.pop(QPARAMS)
    apply(module, ctx, RAISE)
    (found,) = layers(module)
    assert not component_types(found)


def test_a_target_that_does_not_run_it_keeps_the_steps() -> None:
    from qdialect.targets.base import Target

    module, ctx = steps(kind="lstm")
    ctx.target = Target("npu", "", keep_whole=frozenset({"nn.gru"}))
    apply(module, ctx, RAISE)
    assert not layers(module)
