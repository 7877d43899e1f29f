"""lower-composites: whose decision it is, what is handed on, and what is wrong with nn.qparams."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from rewrite_support import apply, parse
from xdsl.dialects.builtin import ModuleOp

from qdialect.errors import InputError, UsageError
from qdialect.ir.context import QContext
from qdialect.ir.ops import AddOp, MulOp, declare, default_components, keys_of
from qdialect.ir.ops.component_qparams import component_types
from qdialect.ir.ops.components import Components
from qdialect.ir.ops.declare import DECLARED
from qdialect.ir.ops.reduction import ReduceMeanOp
from qdialect.passes.lowering.lower_composites import LowerComposites
from qdialect.pipeline.registry import PassRegistry
from qdialect.pipeline.text import PassSpec, parse_pipeline
from qdialect.rewrite import Remark
from qdialect.targets.base import Target

X = "tensor<2x4xf32>"
Q = "!quant.uniform<i8:f32, 0.5>"
LAYER_NORM = ("mean", "centered", "square", "variance", "shifted", "deviation", "normalized")


def held(**scales: float) -> str:
    entries = ", ".join(f'"{r}" = !quant.uniform<i8:f32, {s}>' for r, s in scales.items())
    return f"{{{entries}}}"


def layer_norm(qparams: str) -> str:
    return f"""
func.func @main(%x: {X}, %s: tensor<4xf32>) -> {X} {{
  %0 = nn.layer_norm %x, %s {{nn.key = "ln", nn.qparams = {qparams}}} : ({X}, tensor<4xf32>) -> {X}
  return %0 : {X}
}}"""


def softmax(attributes: str = '{nn.key = "s"}') -> str:
    return f"""
func.func @main(%x: {X}) -> {X} {{
  %0 = nn.softmax %x {attributes} : ({X}) -> {X}
  return %0 : {X}
}}"""


def names(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk() if op.name.startswith("nn.")]


def lowered(text: str, options: str = "") -> tuple[ModuleOp, QContext, list[Remark]]:
    module, ctx = parse(text)
    remarks = apply(module, ctx, f"lower-composites{{numerics=ties {options}}}")
    return module, ctx, remarks


def test_a_target_keeps_what_it_runs_whole() -> None:
    module, ctx = parse(softmax())
    ctx.target = Target("npu", "runs softmax", keep_whole=frozenset({"nn.softmax"}))
    remarks = apply(module, ctx, "lower-composites")
    assert [(r.kind, r.code, r.reason) for r in remarks] == [
        ("refused", "whole", "npu runs 'nn.softmax' whole")
    ]
    assert names(module) == ["nn.softmax"]


def test_a_target_may_decide_op_by_op() -> None:
    class Npu(Target):
        def should_lower(self, op: object) -> bool:
            return keys_of(op) == ("a",)

    module, ctx = parse(f"""
func.func @main(%x: {X}) -> {X} {{
  %0 = nn.swish %x {{nn.key = "a"}} : ({X}) -> {X}
  %1 = nn.swish %0 {{nn.key = "b"}} : ({X}) -> {X}
  return %1 : {X}
}}""")
    ctx.target = Npu("npu", "lowers some")
    apply(module, ctx, "lower-composites")
    assert names(module) == ["nn.sigmoid", "nn.mul", "nn.swish"]


def test_pieces_that_the_target_cannot_run_are_not_written() -> None:
    text = softmax("{nn.qparams = " + held(sub_max=0.5, exp=0.5, sum=0.5) + "}")
    module, ctx = parse(text.replace(X, f"tensor<2x4x{Q}>"))
    ctx.target = Target("npu", "no exp", kernels={"nn.exp": ()})
    (remark,) = apply(module, ctx, "lower-composites{numerics=relaxed}")
    assert (remark.kind, remark.code) == ("refused", "target")
    assert names(module) == ["nn.softmax"]


def test_a_second_lowering_finds_its_own() -> None:
    entries = {role: float(n + 1) for n, role in enumerate(LAYER_NORM)}
    text = layer_norm(held(**entries, **{"mean/sum": 99.0, "variance/sum": 77.0}))
    module, ctx, _ = lowered(text, "ops=nn.layer_norm")
    mean = next(op for op in module.walk() if keys_of(op) == ("ln/mean",))
    assert {r: t.qparams.scale for r, t in component_types(mean).items()} == {
        "sum": 99.0,
        "result": 1.0,
    }
    apply(module, ctx, "lower-composites{numerics=ties}")
    scales = {
        key: kind.qparams.scale
        for op in module.walk()
        for key in keys_of(op)
        for kind in component_types(op).values()
    }
    assert scales == {
        **{f"ln/{role}": scale for role, scale in entries.items()},
        "ln/mean/sum": 99.0,
        "ln/variance/sum": 77.0,
    }


def test_one_run_lowers_what_two_do() -> None:
    once, ctx, _ = lowered(layer_norm(held(**dict.fromkeys(LAYER_NORM, 1.0))))
    twice, other, _ = lowered(
        layer_norm(held(**dict.fromkeys(LAYER_NORM, 1.0))), "ops=nn.layer_norm"
    )
    apply(twice, other, "lower-composites{numerics=ties}")
    assert str(once) == str(twice)
    before = str(once)
    assert apply(once, ctx, "lower-composites{numerics=ties}") == []
    assert str(once) == before


@pytest.mark.parametrize(
    ("qparams", "message"),
    [
        (held(sub_max=0.5, exp=0.5), "nn.qparams lacks 'sum' (the roles are sub_max, exp, sum"),
        (held(sub_max=0.5, exp=0.5, sum=0.5, total=1.0), "nn.qparams names 'total', but the roles"),
        (held(**{"sub_max": 0.5, "exp": 0.5, "sum": 0.5, "exp/x": 1.0}), "names 'exp/x'"),
        (held(exp=0.5, sum=0.5, result=0.5), "nn.qparams lacks 'sub_max'"),
        ("{sub_max = 1, exp = 2, sum = 3}", "holds 1 : i64 for 'sub_max', not a !quant.uniform"),
        ("7", "nn.qparams must be a dictionary from role to quantized type"),
        (held(sub_max=0.5, exp=0.5, sum=0.5).replace("f32", "f16"), "expresses 'sub_max' in f16"),
    ],
)
def test_wrong_component_qparams_are_one_error(qparams: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(softmax(f"{{nn.qparams = {qparams}}}"))
    assert caught.value.code == "invalid-ir"
    assert message in str(caught.value)
    assert caught.value.where is not None and caught.value.where.line == 3


@pytest.mark.parametrize("role", ["mean/total", "mean/sum/x", "square/sum", "mean/"])
def test_unknown_roles_of_pieces_are_one_error(role: str) -> None:
    known = dict.fromkeys(LAYER_NORM, 0.5)
    parse(layer_norm(held(**known, **{"mean/sum": 1.0})))
    with pytest.raises(InputError, match=rf"names '{role}', but the roles are"):
        parse(layer_norm(held(**known, **{role: 1.0})))


def test_three_lowerings_each_find_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A composite in a composite in a composite: attention, its softmax, the sum in that."""

    def build(op, pieces):
        mean = pieces.add("mean", ReduceMeanOp(op.operands[0], axes=(-1,)))
        return pieces.add("result", MulOp(mean, pieces.number(2.0)))

    total = Components(("mean", "result"), build, inner={"mean": "nn.reduce_mean"})
    softmax = replace(default_components()["nn.softmax"], inner={"sum": "nn.reduce_sum"})
    for name, components in (("nn.reduce_sum", total), ("nn.softmax", softmax)):
        declared = DECLARED[name]._replace(pieces=partial(lambda it: it, components))
        monkeypatch.setitem(DECLARED, name, declared)
    monkeypatch.setattr(declare, "components_of", declare.components_of.__wrapped__)
    roles = ["qk", "scaled", "softmax", "softmax/sub_max", "softmax/exp", "softmax/sum"]
    roles += ["softmax/sum/mean", "softmax/sum/mean/sum"]
    scales = {role: float(n + 1) for n, role in enumerate(roles)}
    x = "tensor<1x1x2x4xf32>"
    module, ctx = parse(f"""
func.func @main(%x: {x}) -> {x} {{
  %0 = nn.attention %x, %x, %x scale 0.5 {{nn.key = "a", nn.qparams = {held(**scales)}}}
    : ({x}, {x}, {x}) -> {x}
  return %0 : {x}
}}""")
    for name in ("attention", "softmax", "reduce_sum"):
        apply(module, ctx, f"lower-composites{{numerics=ties ops=nn.{name}}}")
        found = {
            f"{keys_of(op)[0]}/{role}".removesuffix("/result"): kind.qparams.scale
            for op in module.walk()
            for role, kind in component_types(op).items()
        }
        assert found == {f"a/{role}": scale for role, scale in scales.items()}


def test_the_result_must_be_what_its_type_says() -> None:
    text = softmax("{nn.qparams = " + held(result=0.25) + "}").replace(X, f"tensor<2x4x{Q}>")
    with pytest.raises(InputError, match=r"gives the result as .*2\.5.*, but its type says .*5\.0"):
        parse(text)


def test_an_op_of_one_piece_has_its_result_only() -> None:
    text = softmax("{nn.qparams = " + held(result=0.5) + "}").replace("softmax", "tanh")
    parse(text)
    with pytest.raises(InputError, match="names 'exp', but the roles are result"):
        parse(text.replace("result", "exp"))


def test_an_unknown_op_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"'nn\.relu' is no composite op"):
        lowered(softmax(), "ops=nn.relu")


@pytest.mark.parametrize("op", sorted(default_components()))
def test_every_composite_has_a_pass_of_its_name(op: str) -> None:
    name = op.removeprefix("nn.").replace("_", "-")
    asked = PassSpec(f"lower-{name}", (("numerics", ("ties",)),))
    ((spec, instance),) = PassRegistry().build([asked])
    assert instance == LowerComposites(numerics="ties", ops=op)
    assert str(spec) == f"lower-composites{{ops={op} numerics=ties}}"


def test_short_names_are_only_of_composites() -> None:
    for text in ("lower-relu", "lower-", "lower-softmax{ops=nn.gelu}"):
        with pytest.raises(UsageError):
            PassRegistry().build(parse_pipeline(text))


def test_composites_from_outside_are_lowered_alike() -> None:
    module, ctx = parse(softmax().replace("softmax", "tanh"))

    def build(op, pieces):
        double = pieces.add("double", AddOp(op.operands[0], op.operands[0]))
        return pieces.add("result", MulOp(double, double))

    ctx.components["nn.tanh"] = Components(("double", "result"), build)
    apply(module, ctx, "lower-composites")
    assert names(module) == ["nn.add", "nn.mul"]
    assert [keys_of(op) for op in module.walk() if keys_of(op)] == [("s/double",), ("s",)]
