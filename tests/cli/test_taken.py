"""`qopt inspect --target`: what of a model a target takes, and why not the rest."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto
from onnx import helper as oh

import qdialect as qd
from qdialect.targets.base import Target
from qdialect.targets.kernels import Kernel
from qdialect.workflows.taken import Kind, Reason, Taken
from tests.support.commands import Result, call, qopt

MIXED = """
!q = tensor<1x2x8x8x!quant.uniform<i8:f32, 0.5>>
!h = tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5>>
!f = tensor<1x2x4x4xf32>
func.func @f(%x: !q, %i: tensor<3xi64>) -> (!f, tensor<3xi64>) {
  %w = nn.constant dense<-127> : tensor<2x2x1x1xi8> : tensor<2x2x1x1x!quant.uniform<i8:f32, 0.5>>
  %v = nn.constant dense<-128> : tensor<2x2x1x1xi8> : tensor<2x2x1x1x!quant.uniform<i8:f32, 0.5>>
  %0 = nn.conv2d %x, %w {nn.key = "fits"} : (!q, tensor<2x2x1x1x!quant.uniform<i8:f32, 0.5>>) -> !q
  %1 = nn.conv2d %0, %v {nn.key = "wide"} : (!q, tensor<2x2x1x1x!quant.uniform<i8:f32, 0.5>>) -> !q
  %2 = nn.max_pool2d %1 kernel [2, 2] strides [2, 2] {nn.key = "pool"} : (!q) -> !h
  %3 = quant.dcast %2 : !h to !f
  %4 = nn.tanh %3 {nn.key = "tanh"} : (!f) -> !f
  %5 = nn.erf %4 {nn.key = "erf"} : (!f) -> !f
  %6 = nn.add %i, %i : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
  func.return %5, %6 : !f, tensor<3xi64>
}"""
ACC = Target(
    "acc",
    "an accelerator",
    kernels={
        "nn.conv2d": (Kernel(("i8", "i8<-127:127>")),),
        "nn.max_pool2d": (Kernel(limits={"strides": "1"}),),
        "nn.tanh": (Kernel(),),
    },
    runs_others=False,
)


def run(*argv: object) -> Result:
    return call(qopt, *(str(a) for a in argv))


def taken(path: Path, target: Target = ACC) -> Taken:
    found = qd.inspect(qd.load(path), target=target).taken
    assert found is not None
    return found


@pytest.fixture(name="mixed")
def _mixed(tmp_path: Path) -> Path:
    path = tmp_path / "mixed.mlir"
    path.write_text(MIXED, encoding="utf-8")
    return path


def test_each_op_is_taken_refused_or_on_floats(mixed: Path) -> None:
    found = taken(mixed)
    assert found.kinds == [
        Kind("nn.conv2d", taken=1, refused=1),
        Kind("nn.erf", floats=1, never=1),
        Kind("nn.max_pool2d", refused=1),
        Kind("nn.tanh", floats=1),
    ]
    assert found.reasons == [
        Reason("nn.conv2d", "operand #1 is i8, not i8<-127:127>", 1, "wide"),
        Reason("nn.erf", "on floats: nothing runs 'nn.erf' on integers", 1, "erf"),
        Reason("nn.max_pool2d", "strides 2 is not 1", 1, "pool"),
        Reason("nn.tanh", "on floats", 1, "tanh"),
    ]
    assert (found.taken, found.total, found.possible, found.on_floats) == (1, 5, 2, False)


def test_the_text_and_the_json(mixed: Path) -> None:
    text = run("inspect", mixed, "--target", "integer").out
    assert "taken by integer on codes: 3 of 5 ops" in text
    assert "once quantized" not in text
    data = json.loads(run("inspect", mixed, "--target", "integer", "--json").out)["taken"]
    assert (data["taken"], data["total"], data["target"]) == (3, 5, "integer")
    assert data["reasons"][0]["reason"] == "on floats"
    assert "taken" not in json.loads(run("inspect", mixed, "--json").out)


def test_a_qdq_file_is_judged_as_kernels_run_it(net: Path) -> None:
    codes = Target("codes", "", storages=frozenset({"u8", "i8", "i32"}))
    found = taken(net, codes)
    assert found.taken == found.total > 0 and not found.on_floats


def test_a_float_model_says_what_may_be(tmp_path: Path) -> None:
    kinds = ["Tanh", "Erf", "Unheard"]
    nodes = [oh.make_node(k, [f"x{n}"], [f"x{n + 1}"], name=k) for n, k in enumerate(kinds)]
    nodes[2].domain = "acme"
    x, y = (oh.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("x0", "x3"))
    graph = oh.make_graph(nodes, "g", [x], [y])
    opsets = [oh.make_opsetid("", 13), oh.make_opsetid("acme", 1)]
    path = tmp_path / "float.onnx"
    onnx.save(oh.make_model(graph, opset_imports=opsets), path)
    found = taken(path)
    assert found.on_floats and (found.total, found.possible) == (3, 1)
    assert [(r.op, r.reason) for r in found.reasons] == [
        ("acme.Unheard", "qdialect does not know it"),
        ("nn.erf", "on floats: nothing runs 'nn.erf' on integers"),
        ("nn.tanh", "on floats"),
    ]
    text = run("inspect", path, "--target", "integer").out
    assert "once quantized, 2 may be taken" in text and " on floats  " in text


def test_a_target_that_is_none(net: Path) -> None:
    found = run("inspect", net, "--target", "integr")
    assert found.code == 2 and "did you mean 'integer'" in found.err
