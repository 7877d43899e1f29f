"""`qopt optimize --check`: what is outside its contract is left out, and the rest is written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

import qdialect as qd
from qdialect import errors
from qdialect.algebra.contract import EXACT, Contract
from qdialect.errors import QError
from qdialect.interpreter import Difference
from qdialect.ir.context import QContext
from qdialect.ir.ops import ClipOp, ReluOp
from qdialect.passes.cleanup.dce import Dce
from qdialect.passes.folding.fold_affine import FoldAffine
from qdialect.plugins.onnx.write import OrtEngine
from qdialect.plugins.onnx.write import model as onnx_model
from qdialect.rewrite import Refusal, Rewriter, Rule
from qdialect.rewrite.remarks import OutputBound, key_text
from qdialect.workflows.check import OutputCheck, check_optimized
from tests.support.commands import Result, call, qopt
from tests.support.qdq_models import conv_relu, quantized


def run(*argv: object) -> Result:
    return call(qopt, *(str(a) for a in argv))


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rewrite that is not one: clamps disappear, and nothing is said of it."""
    sound = Dce.apply

    def apply(self: Dce, ctx: Context, op: ModuleOp) -> None:
        for inner in list(op.walk()):
            if (
                isinstance(inner, ReluOp | ClipOp)
                and inner.results[0].type == inner.operands[0].type
            ):
                inner.results[0].replace_all_uses_with(inner.operands[0])
        sound(self, ctx, op)

    monkeypatch.setattr(Dce, "apply", apply)


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_a_sound_result_is_said_to_be_the_same(net: Path, tmp_path: Path, form: str) -> None:
    result = run("optimize", net, "-o", tmp_path / "o.onnx", "--form", form)
    assert result.code == 0, result.err
    how = "compared with the original on 2 random inputs in ONNX Runtime with its optimizations off"
    if form == "qoperator":
        how += ", as casts and float ops"
    assert f"{how}: 1 of 1 outputs have the same bits" in result.err


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
@pytest.mark.usefixtures("broken")
def test_a_broken_pass_is_left_out(net: Path, tmp_path: Path, form: str) -> None:
    out = tmp_path / "o.onnx"
    result = run("optimize", net, "-o", out, "--form", form)
    assert result.code == 0, result.err
    assert "left out: pass dce: output 'y' differs by up to" in result.err
    assert "its rewrites (exact) allow none" in result.err
    assert "1 of 1 outputs have the same bits" in result.err
    assert ("QLinearConv" in {n.op_type for n in onnx.load(out).graph.node}) == (form != "qdq")
    assert run("optimize", net, "-o", out, "--form", form, "--strict").code == 1
    assert out.exists()


@pytest.mark.usefixtures("broken")
def test_a_broken_pass_is_left_out_of_text(net: Path, tmp_path: Path) -> None:
    result = run("optimize", net, "-o", tmp_path / "o.mlir")
    assert result.code == 0 and "left out: pass dce: " in result.err
    assert "nn.conv2d" in (tmp_path / "o.mlir").read_text()


class _Dropping(Rule[ReluOp]):
    """A rule that is wrong: where a relu does something, it goes."""

    name = "drop-relu"
    crashes: ClassVar[str] = ""

    def roots(self) -> Iterable[str]:
        return (ReluOp.name,)

    def match(self, op: Operation) -> ReluOp | None:
        assert isinstance(op, ReluOp)
        if self.crashes == "match" and key_text(op) == "relu":
            raise IndexError("nobody home")
        return op if op.operands[0].type == op.results[0].type else None

    def check(self, match: ReluOp) -> Contract | Refusal:
        return EXACT

    def rewrite(self, match: ReluOp, rewriter: Rewriter) -> None:
        if self.crashes == "rewrite":
            raise IndexError("nobody home")
        rewriter.replace(match, [match.operands[0]])


@pytest.fixture
def wrong_rule(monkeypatch: pytest.MonkeyPatch) -> type[_Dropping]:
    sound = FoldAffine.rules

    def rules(self: FoldAffine, session: QContext) -> Sequence[Rule[Any]]:
        return (_Dropping(session), *sound(self, session))

    monkeypatch.setattr(FoldAffine, "rules", rules)
    monkeypatch.setattr(_Dropping, "crashes", "")
    return _Dropping


def relus(path: Path) -> int:
    return sum(node.op_type in ("Relu", "Clip", "Max") for node in onnx.load(path).graph.node)


def test_one_wrong_rewrite_is_left_out(tmp_path: Path, wrong_rule: type[_Dropping]) -> None:
    """The first relu sees a zero point of 100 and acts; the second is idle, so that it may go."""
    path, out = tmp_path / "net.onnx", tmp_path / "o.onnx"
    middle: list[tuple[str, list[str], str, dict[str, Any]]] = [
        ("Neg", ["x_d"], "neg", {}),
        ("Relu", ["neg_d"], "relu", {}),
        ("Relu", ["relu_d"], "again", {}),
    ]
    onnx.save(quantized(middle, [1, 64]), path)
    result = run("optimize", path, "-o", out, "--json")
    assert result.code == 0, result.err
    (dropped,) = json.loads(result.out)["dropped"]
    assert dropped["what"] == f"{wrong_rule.name} at 'relu'"
    assert "1 of 1 outputs have the same bits" in result.out


@pytest.mark.parametrize("where", ["match", "rewrite"])
def test_a_rule_that_crashes_is_left_out(
    net: Path,
    tmp_path: Path,
    wrong_rule: type[_Dropping],
    monkeypatch: pytest.MonkeyPatch,
    where: str,
) -> None:
    monkeypatch.setattr(wrong_rule, "crashes", where)
    monkeypatch.setattr(errors, "_OURS", errors._OURS | {__name__})  # pyright: ignore
    result = run("optimize", net, "-o", tmp_path / "o.onnx")
    assert result.code == 0, result.err
    assert "left out: drop-relu at 'relu': pass 'fold-affine' crashed: IndexError" in result.err
    assert "is shown again by /" in result.err and ".mlir" in result.err
    assert relus(tmp_path / "o.onnx") == relus(net)


@pytest.mark.usefixtures("broken")
def test_no_check_on_request(net: Path, tmp_path: Path) -> None:
    result = run("optimize", net, "-o", tmp_path / "o.onnx", "--check=0")
    assert result.code == 0 and "compared" not in result.err


def test_given_inputs(net: Path, tmp_path: Path) -> None:
    inputs = tmp_path / "x.npz"
    np.savez(inputs, x=np.ones((1, 3, 8, 8), np.float32))
    result = run("optimize", net, "-o", tmp_path / "o.onnx", "--input", inputs)
    assert result.code == 0 and "compared with the original on 1 given input in" in result.err
    np.savez(inputs, z=np.ones((1, 3, 8, 8), np.float32))
    result = run("optimize", net, "-o", tmp_path / "p.onnx", "--input", inputs)
    assert result.code == 1 and "no input 'z'" in result.err
    assert not (tmp_path / "p.onnx").exists()


def test_open_extents_are_bound_to_what_runs(tmp_path: Path) -> None:
    path = tmp_path / "open.onnx"
    onnx.save(conv_relu(["batch", 3, "height", "width"]), path)
    result = run("optimize", path, "-o", tmp_path / "o.onnx")
    assert result.code == 0 and "1 of 1 outputs have the same bits" in result.err


def test_a_model_that_does_not_run_is_not_said_to_be_checked(tmp_path: Path) -> None:
    model = conv_relu([1, 3, 8, 8])
    model.graph.node.append(helper.make_node("Nobody", ["y"], ["more"], domain="no.such"))
    model.opset_import.append(helper.make_opsetid("no.such", 1))
    model.graph.output.append(
        helper.make_tensor_value_info("more", TensorProto.FLOAT, list("abcd"))
    )
    path = tmp_path / "custom.onnx"
    onnx.save(model, path)
    result = run("optimize", path, "-o", tmp_path / "o.onnx")
    assert result.code == 0, result.err
    assert "not checked: the original does not run" in result.err


def test_integer_kernels_are_compared_with_integer_kernels(net: Path, tmp_path: Path) -> None:
    kernels, out = tmp_path / "kernels.onnx", tmp_path / "o.onnx"
    assert run("optimize", net, "-o", kernels, "--form=qoperator").code == 0
    assert any(node.op_type == "QLinearConv" for node in onnx.load(kernels).graph.node)
    result = run("optimize", kernels, "-o", out)
    assert result.code == 0, result.err
    x = {"x": np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype(np.float32) * 10}
    (one,), (other,) = (OrtEngine(path, optimize=False).run(x).values() for path in (kernels, out))
    assert np.array_equal(one, other)


def test_an_interface_of_codes(net: Path, tmp_path: Path) -> None:
    result = run("optimize", net, "-o", tmp_path / "o.onnx", "--target=integer")
    assert result.code == 0
    assert "in the reference interpreter: 1 of 1 outputs have the same bits" in result.err


def test_random_answers_are_not_judged(tmp_path: Path) -> None:
    model = conv_relu([1, 3, 8, 8])
    model.graph.node.append(helper.make_node("RandomNormalLike", ["y"], ["noise"]))
    model.graph.output.append(
        helper.make_tensor_value_info("noise", TensorProto.FLOAT, list("abcd"))
    )
    path = tmp_path / "random.onnx"
    onnx.save(model, path)
    result = run("optimize", path, "-o", tmp_path / "o.onnx")
    assert result.code == 0 and "answers at random" in result.err


@pytest.mark.parametrize(
    ("node", "constant"),
    [
        (helper.make_node("Expand", ["x", "k"], ["y"], name="big"), [1 << 31, 3, 8, 8]),
        (helper.make_node("Tile", ["x", "k"], ["y"], name="big"), [1 << 40, 1, 1, 1]),
        (helper.make_node("ConstantOfShape", ["k"], ["y"], name="big"), [1 << 31, 1 << 20]),
    ],
)
def test_absurd_extents_are_not_computed(
    tmp_path: Path, node: onnx.NodeProto, constant: list[int]
) -> None:
    path, out = tmp_path / "net.onnx", tmp_path / "out.onnx"
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * len(constant))
    shape = numpy_helper.from_array(np.array(constant, np.int64), "k")
    graph = helper.make_graph([node], "g", [x], [y], [shape])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), path)
    result = run("optimize", path, "-o", out)
    assert result.code == 0 and "not checked: " in result.err, result.err
    assert "'big' gives " in result.err


def test_time_is_limited(net: Path) -> None:
    model = qd.load(net)
    checked = check_optimized(model, qd.optimize(model), 100, seconds=0.0)
    assert checked.samples == 1 and "1 of 100 random inputs" in str(checked)
    text = check_optimized(model, qd.optimize(model), 100, seconds=0.0, form=None)
    assert text.samples == 0 and "time is up after 0 s" in str(text)


@pytest.mark.parametrize(
    ("allowed", "holds"), [(1.0, False), (200.0, True), (float("inf"), False), (1e60, False)]
)
def test_a_bound_is_what_is_judged(net: Path, allowed: float, holds: bool) -> None:
    before, after = qd.load(net), qd.load(net)
    for op in list(after.module.walk()):
        if isinstance(op, ReluOp):
            op.results[0].replace_all_uses_with(op.operands[0])
    # `y` is dequantized, so the bound on it is in real units.
    bound = OutputBound("main", 0, "bounded", float("inf"), allowed * 0.1, [], [])
    symbol = next(op for op in after.module.ops).sym_name.data  # pyright: ignore
    after.ctx.remarks.outputs = [OutputBound(symbol, *list(vars(bound).values())[1:])]
    if holds:
        text = str(qd.check(before, after))
        assert "allow 20" in text
    else:
        with pytest.raises(QError) as caught:
            qd.check(before, after)
        assert caught.value.code == "outside-contract"
        assert caught.value.where is not None and caught.value.where.node


@pytest.mark.parametrize(
    ("db", "steps", "number", "holds"),
    [
        (30.0, 99.0, True, True),
        (9.9, 99.0, True, False),
        (-20.0, 1.0, True, True),
        (-20.0, 9.0, False, True),
    ],
)
def test_without_a_bound_power_judges(db: float, steps: float, number: bool, holds: bool) -> None:
    found = Difference(steps, 0.5, 0.5, db, (0,))
    output = OutputCheck("y", "bounded", 1e60, False, found, number)
    assert output.holds == holds
    assert ("at least 10 wanted" in str(output)) == number


@pytest.mark.usefixtures("broken")
def test_the_python_api_checks_on_request(net: Path) -> None:
    model = qd.load(net)
    qd.optimize(model)
    with pytest.raises(QError, match="outside its contract"):
        qd.optimize(model, check=1)


def test_what_the_runtime_cannot_optimize_is_not_written(
    net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from qdialect.errors import InputError

    sound = OrtEngine.__init__

    def fails(self: OrtEngine, model: Any, optimize: bool, **more: Any) -> None:
        if optimize and not isinstance(model, str | Path):
            raise InputError("ONNX Runtime does not load the model: a fusion failed")
        sound(self, model, optimize, **more)

    monkeypatch.setattr(OrtEngine, "__init__", fails)
    result = run("optimize", net, "-o", tmp_path / "o.onnx")
    assert result.code == 0, result.err
    assert "qdq is no candidate: ONNX Runtime does not load the model: a fusion" in result.err
    assert (tmp_path / "o.onnx").read_bytes() == net.read_bytes()


def test_floats_that_the_runtime_sums_in_another_order(tmp_path: Path) -> None:
    """A weight that is quantized in the graph becomes constant, and ONNX Runtime packs it."""
    weight = np.random.default_rng(1).normal(size=(8, 60)).astype(np.float32)
    constants = {"w": weight, "s": np.array(0.03, np.float32), "z": np.array(0, np.int8)}
    graph = helper.make_graph(
        [
            helper.make_node("QuantizeLinear", ["w", "s", "z"], ["q"], name="q"),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], name="d"),
            helper.make_node("Gemm", ["x", "d", "b"], ["y"], name="y", transB=1),
        ],
        "net",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 60]),
            helper.make_tensor_value_info("b", TensorProto.FLOAT, [8]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, tmp_path / "in.onnx")
    result = run("optimize", tmp_path / "in.onnx", "-o", tmp_path / "out.onnx")
    assert result.code == 0, result.err
    assert "1 of 1 outputs have the same bits" in result.err
    assert (tmp_path / "out.onnx").exists()


def test_a_table_of_a_model_of_floats_is_what_floats_give(tmp_path: Path) -> None:
    """-5 * 0.7 is -3.5 in f32, and a little more in real numbers."""
    source, out, data = tmp_path / "net.onnx", tmp_path / "out.mlir", tmp_path / "x.npz"
    middle: list[tuple[str, list[str], str, dict[str, Any]]] = [
        ("LeakyRelu", ["x_d"], "leaky", {"alpha": 0.7})
    ]
    constants = {"s": np.array(1.0, np.float32)}
    onnx.save(quantized(middle, [1, 2], constants), source)
    np.savez(data, allow_pickle=False, x=np.array([[-5, 3]], np.float32))
    result = run("optimize", source, "-o", out, "--target", "integer", "--input", data)
    assert result.code == 0, result.err
    assert "1 of 1 outputs have the same bits" in result.err and "left out" not in result.err
    assert "nn.table" in out.read_text()


@pytest.mark.parametrize("check", ["0", "2"])
def test_what_is_checked_is_what_is_written(
    net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: str
) -> None:
    """A model is exported once: the check, the choice of the file and the file share it."""
    exported: list[object] = []
    export = onnx_model.write_graph

    def counted(*args: Any) -> Any:
        exported.append(args)
        return export(*args)

    monkeypatch.setattr(onnx_model, "write_graph", counted)
    result = run("optimize", net, "-o", tmp_path / "o.onnx", "--race=0", f"--check={check}")
    assert result.code == 0, result.err
    assert len(exported) == 1
