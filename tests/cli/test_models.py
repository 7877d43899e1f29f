"""`qopt`, `qopt-translate` and the Python API on a small ONNX model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import qdialect as qd
from qdialect.plugins.mlir.write import module_text
from tests.support.commands import Result, call, qopt, qopt_translate


def build() -> onnx.ModelProto:
    """x -> Q -> DQ -> Relu -> Q -> DQ -> Shrink, an op nobody knows."""
    scale = numpy_helper.from_array(np.array(0.1, np.float32), "s")
    zero = numpy_helper.from_array(np.array(3, np.uint8), "z")

    def node(kind: str, inputs: list[str], outputs: list[str], **attributes: object):
        return helper.make_node(kind, inputs, outputs, name=outputs[0], **attributes)

    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q0"]),
        node("DequantizeLinear", ["q0", "s", "z"], ["d0"]),
        node("Relu", ["d0"], ["r"]),
        node("QuantizeLinear", ["r", "s", "z"], ["q1"]),
        node("DequantizeLinear", ["q1", "s", "z"], ["y"]),
        node("Shrink", ["y"], ["top"]),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8]),
            helper.make_tensor_value_info("top", TensorProto.FLOAT, [1, 8]),
        ],
        [scale, zero],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    return model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "small.onnx"
    onnx.save(build(), path)
    return path


def run(*argv: object) -> Result:
    return call(qopt, *(str(a) for a in argv))


@pytest.mark.parametrize("suffix", [".onnx", ".mlir"])
def test_optimize_then_diff(model: Path, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"out{suffix}"
    result = run("optimize", model, "-o", out, "--timing", "--verify-numerics=2")
    assert result.code == 0, result.err
    assert result.out == ""
    assert "quantize" in result.err
    assert "passes" in result.err
    for engine in ("numpy", "onnxruntime"):
        different = run("diff", model, out, "--engine", engine, "--samples=3")
        assert different.code == 0, different.out + different.err
        assert "0.0000%" in different.out


def test_optimize_is_quiet_on_request(model: Path, tmp_path: Path) -> None:
    assert run("optimize", model, "-o", tmp_path / "o.onnx", "-q").err == ""


def test_optimize_writes_remarks(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    assert run("optimize", model, "-o", tmp_path / "o.onnx", f"--remarks={path}").code == 0
    assert json.loads(path.read_text())["version"] == 1


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        ((), 0, "usage: qopt COMMAND"),
        (("optimise",), 2, "unknown command 'optimise'; did you mean 'optimize'?"),
        (("optimize", "IN"), 2, "where to write the result is missing"),
        (("optimize", "-o", "x.onnx"), 2, "IN is missing"),
        (("optimize", "IN", "-o", "x.txt"), 2, "must end in .onnx or .tflite or .circle or .mlir"),
        (("optimize", "IN", "-o", "no/x.onnx"), 1, "no: error: no such folder"),
        (("optimize", "IN", "-o", "x.onnx", "--numerics=exat"), 2, "did you mean 'exact'?"),
        (("optimize", "IN", "-o", "x.onnx", "--target=nope"), 2, "unknown target 'nope'"),
        (("optimize", "none.onnx", "-o", "x.onnx"), 1, "none.onnx"),
        (("inspect", "a.txt"), 2, "use .onnx, .pt2, .tflite, .circle, .mlir or .mlirbc"),
        (("inspect", "IN", "--fail-on=b1"), 2, "not 'b1'; did you mean 'B1'?"),
        (
            ("inspect", "IN", "--fail-on", "B1,B9"),
            2,
            "codes (B1, B2, B3, B4, B5, B6, B7), not 'B9'",
        ),
        (("inspect", "IN", "--fail-on="), 2, "not ''"),
        (("run", "IN", "--input=i.npz"), 2, "--output Y.npz is missing"),
        (("run", "IN", "--input=none.npz", "--output=y.npz"), 1, "none.npz: error: cannot open"),
        (("diff", "IN"), 2, "B is missing"),
        (
            ("diff", "IN", "IN", "--engine=abacus"),
            2,
            "--engine is one of numpy, onnxruntime",
        ),
        (("diff", "IN", "IN", "--samples=0"), 2, "an integer of at least 1"),
    ],
)
def test_errors(
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    argv: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*(str(model) if a == "IN" else a for a in argv))
    assert result.code == code
    assert message in (result.err if code else result.out)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["small.onnx"]


def test_truncated_model(model: Path, tmp_path: Path) -> None:
    model.write_bytes(model.read_bytes()[:100])
    result = run("optimize", model, "-o", tmp_path / "o.onnx")
    assert result.code == 1
    assert result.err.startswith(f"{model}")
    assert "Traceback" not in result.err
    assert not (tmp_path / "o.onnx").exists()


def test_casts_with_a_scale_that_no_type_has_are_kept(model: Path, tmp_path: Path) -> None:
    proto = build()
    bad = numpy_helper.from_array(np.array(float("nan"), np.float32), "s")
    proto.graph.initializer[0].CopyFrom(bad)
    onnx.save(proto, model)
    result = run("optimize", model, "-o", tmp_path / "o.onnx")
    assert result.code == 0 and "left out" not in result.err
    kinds = [node.op_type for node in onnx.load(tmp_path / "o.onnx").graph.node]
    assert kinds.count("QuantizeLinear") == kinds.count("DequantizeLinear") == 2
    assert run("inspect", model).code == 0


def test_inspect(model: Path) -> None:
    result = run("inspect", model)
    assert result.code == 0
    assert "Shrink" in result.out
    assert "\033" not in result.out
    data = json.loads(run("inspect", model, "--json").out)
    assert data["quantize"] == 2
    assert data["dequantize"] == 2
    assert data["inputs"] == {"x": "tensor<1x8xf32>"}
    assert data["outputs"] == {"y": "tensor<1x8xf32>", "top": "tensor<1x8xf32>"}
    assert [(u["kind"], u["count"]) for u in data["unknown"]] == [("Shrink", 1)]


def test_inspect_tells_boundaries(model: Path) -> None:
    result = run("inspect", model)
    assert "quantization boundaries (6)" in result.out
    assert "nn.relu r" in result.out
    found = json.loads(run("inspect", model, "--json").out)["boundaries"]
    assert [(b["code"], b["op"], b["key"]) for b in found] == [
        ("B7", "func.func", "small"),
        ("B7", "func.func", "small"),
        ("B6", "quant.dcast", "d0"),
        ("B3", "nn.relu", "r"),
        ("B6", "quant.dcast", "y"),
        ("B1", "Shrink", "top"),
    ]
    assert (found[3]["flops"], found[3]["bytes"], found[3]["fix"]) == (8, 32, "integerize")
    assert found[5]["blocked_by"]


def test_inspect_of_a_qdq_file_as_kernels_run_it(model: Path) -> None:
    assert run("inspect", model, "--fail-on", "B3,B6").code == 1
    result = run("inspect", model, "--fail-on", "B3,B6", "--integerized")
    assert (result.code, result.err) == (0, "")
    assert "Shrink" in result.out and "cast of a cast" not in result.out


def test_inspect_of_several_models(model: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.onnx"
    shutil.copy(model, other)
    result = run("inspect", model, other, "--fail-on", "B1")
    assert result.code == 1
    assert result.err == f"{model}: found B1\n{other}: found B1\n"
    assert result.out.startswith(f"{model}\n\nsmall\n")
    assert f"\n{other}\n\nsmall\n" in result.out
    refused = run("inspect", model, other, "--json")
    assert (refused.code, refused.err) == (2, "error: --json is for one model\n")


def test_inspect_fails_on_what_must_not_be(model: Path, tmp_path: Path) -> None:
    assert run("inspect", model, "--fail-on", "B4,B5").code == 0
    result = run("inspect", model, "--fail-on=B4, B3", "--fail-on=B1", "--json")
    assert (result.code, result.err) == (1, f"{model}: found B1, B3\n")
    assert json.loads(result.out)["total"] > 0
    out = tmp_path / "o.mlir"
    assert run("optimize", model, "-o", out, "-q").code == 0
    assert run("inspect", out, "--fail-on=B3").code == 0


@pytest.mark.parametrize("engine", ["numpy", "onnxruntime"])
def test_run(model: Path, tmp_path: Path, engine: str) -> None:
    x = np.linspace(-1, 3, 8, dtype=np.float32).reshape(1, 8)
    np.savez(tmp_path / "x.npz", x=x)
    out = tmp_path / "y.npz"
    result = run("run", model, "--input", tmp_path / "x.npz", "-o", out, f"--engine={engine}")
    assert result.code == 0, result.err
    with np.load(out) as arrays:
        assert sorted(arrays) == ["top", "y"]
        assert arrays["y"].max() == np.float32(np.float32(0.1) * np.float32(30))


@pytest.mark.parametrize("engine", ["numpy", "onnxruntime"])
def test_run_with_wrong_inputs(model: Path, tmp_path: Path, engine: str) -> None:
    np.savez(tmp_path / "x.npz", y=np.zeros((1, 8), np.float32))
    files = ("--input", tmp_path / "x.npz", "-o", tmp_path / "y.npz")
    result = run("run", model, *files, f"--engine={engine}")
    assert result.code == 1
    assert "inputs" in result.err
    assert not (tmp_path / "y.npz").exists()


def test_diff_counts_steps_of_the_quantization_behind(model: Path, tmp_path: Path) -> None:
    proto = build()
    zero = numpy_helper.from_array(np.array(4, np.uint8), "z")
    proto.graph.initializer[1].CopyFrom(zero)
    other = tmp_path / "other.onnx"
    onnx.save(proto, other)
    data = {"x": np.full((1, 8), 50.0, np.float32)}
    (y, _) = qd.diff(qd.load(model), qd.load(other), data)
    assert y.unit == "steps"
    assert y.max_steps == pytest.approx(1.0, rel=1e-4)
    np.savez(tmp_path / "x.npz", **data)
    flags = ("diff", model, other, "--input", tmp_path / "x.npz")
    assert run(*flags).code == 1
    assert json.loads(run(*flags, "--json").out)["outputs"][0]["name"] == "y"


def test_translate_there_and_back(model: Path, tmp_path: Path) -> None:
    text, back = tmp_path / "m.mlir", tmp_path / "m.onnx"
    assert call(qopt_translate, "--import-onnx", str(model), "-o", str(text)).code == 0
    assert call(qopt_translate, "--export-onnx", str(text), "-o", str(back)).code == 0
    onnx.checker.check_model(str(back))
    assert run("diff", model, back).code == 0
    piped = call(qopt_translate, "--import-onnx", "-", stdin=model.read_bytes())
    assert piped.code == 0
    assert call(qopt_translate, "--export-onnx", "-", "-o", str(back), stdin=piped.out).code == 0


def test_text_in_between_changes_no_byte(model: Path, tmp_path: Path) -> None:
    proto = onnx.load(model)
    top = proto.graph.node[-1]
    for name, value in (("lambd", 0.5), ("bias", 0.0)):
        top.attribute.append(helper.make_attribute(name, value))
    for domain in ("com.microsoft", "ai.onnx.ml"):
        proto.opset_import.append(helper.make_opsetid(domain, 1))
    helper.set_model_props(proto, {"b": "1", "a": "日本"})
    onnx.save(proto, model)
    text, direct, through = (tmp_path / name for name in ("t.mlir", "d.onnx", "t.onnx"))
    assert call(qopt_translate, "--import-onnx", str(model), "-o", str(text)).code == 0
    for source, output in ((model, direct), (text, through)):
        assert run("optimize", source, "-o", output).code == 0
    assert direct.read_bytes() == through.read_bytes()


def test_an_empty_pipeline_changes_nothing(model: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.onnx"
    assert run("optimize", model, "-o", output, "--pass-pipeline", "").code == 0
    kinds = [node.op_type for node in onnx.load(output).graph.node]
    assert kinds == [node.op_type for node in build().graph.node]


def test_translate_needs_an_action(model: Path) -> None:
    result = call(qopt_translate, str(model))
    assert result.code == 2
    assert "give one of --import-onnx, --import-tosa" in result.err


def test_the_api_leaves_its_arguments_alone(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    original = qd.load(model)
    before = module_text(original.module, original.ctx)
    optimized = qd.optimize(original, target="onnxruntime", numerics="exact")
    assert module_text(original.module, original.ctx) == before
    assert original.ctx.remarks.remarks == []
    assert optimized.source is None
    assert qd.inspect(optimized).quantize < qd.inspect(original).quantize
    x = {"x": np.linspace(-1, 3, 8, dtype=np.float32).reshape(1, 8)}
    np.testing.assert_array_equal(qd.run(original, x)["y"], qd.run(optimized, x)["y"])
    assert capsys.readouterr() == ("", "")


def test_the_api_raises_errors(model: Path, tmp_path: Path) -> None:
    loaded = qd.load(model)
    with pytest.raises(qd.UsageError):
        qd.optimize(loaded, numerics="perfect")
    with pytest.raises(qd.UsageError):
        qd.run_passes(loaded, "no-such-pass")
    with pytest.raises(qd.InputError):
        qd.save(loaded, tmp_path / "no" / "x.onnx")
    with pytest.raises(AttributeError):
        _ = qd.no_such_name


def test_all_public_names_exist() -> None:
    assert all(getattr(qd, name) is not None for name in qd.__all__)
    assert set(qd.__all__) == set(qd._WHERE)
