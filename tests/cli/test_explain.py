"""`qopt explain`: what was done at an op, what was not, and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.commands import call, qopt

TEXT = """func.func @main(%x: tensor<1x4xf32>, %y: tensor<1x4xf32>) -> tensor<1x4xf32> {
  %0 = quant.qcast %x {nn.key = "qx"}
    : tensor<1x4xf32> to tensor<1x4x!quant.uniform<i8:f32, 0.5>>
  %1 = quant.dcast %0 {nn.key = "dx"}
    : tensor<1x4x!quant.uniform<i8:f32, 0.5>> to tensor<1x4xf32>
  %2 = nn.relu %1 {nn.key = "act", nn.outputs = ["act_out"]} : (tensor<1x4xf32>) -> tensor<1x4xf32>
  %3 = quant.qcast %2 {nn.key = "qo"}
    : tensor<1x4xf32> to tensor<1x4x!quant.uniform<i8:f32, 0.25>>
  %4 = quant.dcast %3 {nn.key = "do"}
    : tensor<1x4x!quant.uniform<i8:f32, 0.25>> to tensor<1x4xf32>
  %5 = nn.add %4, %y {nn.key = "sum"} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
  return %5 : tensor<1x4xf32>
}
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "m.mlir"
    path.write_text(TEXT)
    return str(path)


def test_what_fired_is_told_with_types_and_declaration(model: str) -> None:
    done = call(qopt, "explain", model, "--op", "act", "--json")
    assert done.code == 0
    told = json.loads(done.out)
    assert told["version"] == 1 and told["target"] == "onnxruntime"
    assert [op["name"] for op in told["before"]] == ["nn.relu"]
    assert told["before"][0]["operands"] == ["tensor<1x4xf32>"]
    assert ["order", "commutes with monotone maps"] in told["declaration"]
    made = [*told["decisions"], *told["casts"]]
    assert any(d["kind"] == "fired" and d["contract"] == "exact" for d in made)
    assert {d["at"] for d in told["casts"]} <= {"dx", "qo"}
    assert "what was missing" in call(qopt, "explain", model, "--op", "act").out


def test_a_refusal_tells_the_condition(model: str) -> None:
    done = call(qopt, "explain", model, "--op", "sum", "--op", "qo", "--json")
    told = json.loads(done.out)
    assert [each["key"] for each in told] == ["sum", "qo"]
    refused = [d for each in told for d in (*each["decisions"], *each["casts"])]
    for decision in refused:
        assert decision["times"] >= 1
        assert bool(decision["code"]) == (decision["kind"] != "fired")


def test_the_name_of_a_value_finds_its_op(model: str) -> None:
    done = call(qopt, "explain", model, "--op", "act_out", "--json")
    assert json.loads(done.out)["before"][0]["keys"] == ["act"]


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        (["--op", "akt"], 1, "no op 'akt'; did you mean 'act'?"),
        (["--op", "act", "--target", "onnxruntme"], 2, "did you mean 'onnxruntime'?"),
    ],
)
def test_what_is_wrong_is_told(model: str, flags: list[str], code: int, said: str) -> None:
    done = call(qopt, "explain", model, *flags)
    assert done.code == code
    assert said in done.err


def test_every_declaration_can_be_told() -> None:
    from qdialect.ir.behaviors.describe import described
    from qdialect.ir.context import new_context

    registry = new_context().behaviors
    for name in registry.names():
        behavior = registry.named(name)
        assert behavior is not None
        rows = described(behavior)
        assert sum(row[0].startswith("operand") for row in rows) == len(behavior.operands)
        assert all(what and how for what, how in rows)


def test_all_decisions_are_counted_and_asked_for_by_rule_and_condition(model: str) -> None:
    told = json.loads(call(qopt, "explain", model, "--json").out)
    times = [d["times"] for d in told["decisions"]]
    assert times == sorted(times, reverse=True) and {d["at"] for d in told["decisions"]} == {""}
    refused = [d for d in told["decisions"] if d["kind"] == "refused"]
    assert refused
    first = refused[0]
    by_code = json.loads(call(qopt, "explain", model, "--code", first["code"], "--json").out)
    assert {d["code"] for d in by_code["decisions"]} == {first["code"]}
    assert all(d["at"] for d in by_code["decisions"])
    by_rule = json.loads(call(qopt, "explain", model, "--rule", first["rule"], "--json").out)
    assert {d["rule"] for d in by_rule["decisions"]} == {first["rule"]}
    by_pass = json.loads(call(qopt, "explain", model, "--rule", first["pass_name"], "--json").out)
    assert {d["pass_name"] for d in by_pass["decisions"]} == {first["pass_name"]}
    text = call(qopt, "explain", model).out
    assert f"[{first['code']}]" in text and "--rule RULE or --code CODE" in text
