"""What `qopt quantize` measures and says of a detector: boxes in pixels beside scores."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import qdialect as qd
from qdialect.cli.qopt import main
from qdialect.errors import InputError
from qdialect.quantizer.output_parts import Part
from qdialect.quantizer.quality import PartQuality, Quality
from qdialect.targets.installed import get_target
from qdialect.workflows.quality import FEWEST, Measured, Samples, held_out, measure
from qdialect.workflows.quantize import Quantization

RANDOM = np.random.default_rng(5)


def detector(folder: Path) -> Path:
    """A convolution, whose results are boxes in pixels and scores, in one output."""
    weights = {
        "w": RANDOM.normal(size=(8, 3, 3, 3)).astype("f4") / 3,
        "head": RANDOM.normal(size=(7, 8, 1, 1)).astype("f4") / 3,
        "sizes": np.array([4, 3]),
        "pixels": np.float32(300),
        "flat": np.array([1, 7, -1]),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("Conv", ["r", "head"], ["h"], "head_conv"),
        helper.make_node("Split", ["h", "sizes"], ["a", "b"], "split", axis=1),
        helper.make_node("Mul", ["a", "pixels"], ["boxes"], "boxes"),
        helper.make_node("Sigmoid", ["b"], ["scores"], "scores"),
        helper.make_node("Concat", ["boxes", "scores"], ["both"], "both", axis=1),
        helper.make_node("Reshape", ["both", "flat"], ["y"], "y"),
    ]
    graph = helper.make_graph(
        nodes,
        "detector",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 7, 64])],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )
    path = folder / "detector.onnx"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path
    )
    return path


def images(count: int) -> Any:
    return RANDOM.normal(size=(count, 3, 8, 8)).astype("f4")


def data_of(folder: Path, **arrays: Any) -> Path:
    path = folder / "data.npz"
    np.savez(path, **arrays)  # pyright: ignore[reportArgumentType]
    return path


def one_scale(folder: Path) -> Path:
    """The detector with its output rounded to one scale, as a quantizer that ties a concat does."""
    model = onnx.load(detector(folder))
    model.graph.node[-1].output[0] = "z"
    model.graph.initializer.append(numpy_helper.from_array(np.array(40, "f4"), "s"))
    model.graph.initializer.append(numpy_helper.from_array(np.array(128, "u1"), "n"))
    model.graph.node.append(helper.make_node("QuantizeLinear", ["z", "s", "n"], ["q"], "q"))
    model.graph.node.append(helper.make_node("DequantizeLinear", ["q", "s", "n"], ["y"], "d"))
    path = folder / "tied.onnx"
    onnx.save(model, path)
    return path


def test_samples_are_held_out_where_there_are_enough() -> None:
    assert held_out(FEWEST - 1) == []
    assert held_out(16) == [4, 12]
    assert held_out(128) == list(range(4, 128, 8))
    assert len(held_out(100_000)) == 16


@pytest.mark.parametrize("search", [True, False])
def test_no_range_is_of_what_is_held_out(tmp_path: Path, search: bool) -> None:
    """One sample that is held out is a thousand times as large: no range knows of it."""
    x = images(16)
    x[4] *= 1000
    model = qd.load(detector(tmp_path))
    target = get_target("onnxruntime")
    work = Quantization(
        model, qd.Recipe(), target, data=data_of(tmp_path, x=x), search=search, engine="onnxruntime"
    )
    found = work.run()
    assert found.profile.sample_count == 14
    assert float(found.profile.entries["input:x"].tensor.maximum[0]) < 100
    samples = work.judged_samples()
    assert samples is not None and samples.held_out
    assert [float(np.abs(s["x"]).max()) > 100 for s in samples.inputs] == [True, False]


def test_a_detector_is_judged_by_boxes_and_by_scores(tmp_path: Path) -> None:
    path, out = detector(tmp_path), tmp_path / "q.onnx"
    data = data_of(tmp_path, x=images(16))
    assert main(["quantize", str(path), "-d", str(data), "-o", str(out), "--race=0", "-q"]) == 0
    samples = Samples([{"x": x} for x in images(4)[:, None]], range(4), 16, True)
    good = measure(qd.load(path), qd.load(out), samples, get_target("onnxruntime"), seconds=0.1)
    assert good.quality is not None and good.quality.worst_db > 20 and not good.quality.dead
    assert [str(one.part) for one in good.quality.parts] == ["y[:, 0:4]", "y[:, 4:7]"]
    assert good.laps["float"].ratio == 1.0
    tied = measure(qd.load(path), qd.load(one_scale(tmp_path)), samples, get_target("onnxruntime"))
    assert tied.quality is not None
    assert tied.quality.parts[0].sqnr_db > 20
    assert tied.quality.worst_db == pytest.approx(0, abs=0.1)
    with pytest.raises(InputError, match=r"y\[:, 4:7\]") as refused:
        tied.refuse_dead()
    assert refused.value.code == "dead-output"


def test_the_table_and_the_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = detector(tmp_path), tmp_path / "q.onnx"
    command = ["quantize", str(path), "-d", str(data_of(tmp_path, x=images(16))), "-o", str(out)]
    assert main([*command, "--race=0"]) == 0
    shown = capsys.readouterr().err
    assert "on 2 of 16 samples, held out (no range is of them)" in shown
    for row in ("latency, one thread", "file", "nodes executed", "y[:, 0:4]", "y[:, 4:7]"):
        assert row in shown
    assert main([*command, "--race=0", "--force", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["measured"]
    assert (found["samples"], found["held_out"]) == (2, True)
    assert [part["place"] for part in found["loss"]["parts"]] == ["[:, 0:4]", "[:, 4:7]"]
    assert found["loss"]["worst_db"] == min(part["sqnr_db"] for part in found["loss"]["parts"])
    assert found["bytes"] == {"float": path.stat().st_size, "written": out.stat().st_size}
    assert set(found["latency"]) == set(found["executed"]) == {"float", "written"}


def test_too_few_samples_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = detector(tmp_path), tmp_path / "q.onnx"
    data = data_of(tmp_path, x=images(3))
    assert main(["quantize", str(path), "-d", str(data), "-o", str(out), "--race=0"]) == 0
    assert "3 of 3 samples, too few to hold some out (16 are needed)" in capsys.readouterr().err


def test_of_a_profile_alone_there_is_no_loss(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, saved, out = detector(tmp_path), tmp_path / "p.json", tmp_path / "q.onnx"
    data = data_of(tmp_path, x=images(3))
    assert main(["profile", str(path), "-d", str(data), "-o", str(saved), "-q"]) == 0
    assert main(["quantize", str(path), "--profile", str(saved), "-o", str(out)]) == 0
    assert "not measured: there is no data to judge the outputs on" in capsys.readouterr().err


def test_a_target_that_is_no_runtime_is_judged_in_the_reference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = detector(tmp_path), tmp_path / "q.mlir"
    data = data_of(tmp_path, x=images(3))
    command = ["quantize", str(path), "-d", str(data), "-o", str(out), "--target=tosa", "--json"]
    # Without floats, all of the concat is on the scale of its boxes.
    assert main(command) == 1
    assert "y[:, 4:7]" in capsys.readouterr().err
    assert main([*command, "--allow-dead"]) == 0
    found = json.loads(capsys.readouterr().out)["measured"]
    assert found["where"] == "the reference interpreter"
    assert found["latency"] == found["executed"] == {}
    assert [part["dead"] for part in found["loss"]["parts"]] == [False, True]


def dead(*arguments: Any, **more: Any) -> Measured:
    """In the place of `measure`: an output is dead."""
    part = PartQuality(Part("y", None, 1, key="both"), 3.0, 3.0, (5.0, 1.0), None, [1])
    return Measured(quality=Quality([part], 1))


def test_a_dead_output_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("qdialect.cli.command_quantize.measure", dead)
    path, out = detector(tmp_path), tmp_path / "q.onnx"
    data = data_of(tmp_path, x=images(3))
    command = ["quantize", str(path), "-d", str(data), "-o", str(out), "--race=0"]
    assert main(command) == 1
    shown = capsys.readouterr().err
    assert "y, channel 1" in shown and "--allow-dead" in shown and "both" in shown
    assert not out.exists()
    assert main([*command, "--allow-dead"]) == 0
    assert out.exists()


def header(folder: Path) -> None:
    """An array whose header claims more samples than there are atoms to hold them."""
    claim = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1152921504606846976, 3, 8, 8), }"
    claim += b" " * (64 - (len(claim) + 11) % 64) + b"\n"
    raw = b"\x93NUMPY\x01\x00" + len(claim).to_bytes(2, "little") + claim + bytes(64)
    with zipfile.ZipFile(folder / "data.npz", "w") as archive:
        archive.writestr("x.npy", raw)


def infinite(value: float) -> Any:
    x = images(20)
    x[17, 0, 0, 0] = value
    return x


def objects() -> Any:
    x = np.empty(2, object)
    x[:] = [images(1), None]
    return x


BAD: dict[str, tuple[Callable[[Path], Any], str, str]] = {
    "infinite": (
        lambda p: data_of(p, x=infinite(np.inf)),
        "input 'x' has an infinite number in sample 17",
        "data-infinite",
    ),
    "NaN": (
        lambda p: data_of(p, x=infinite(np.nan)),
        "input 'x' has NaN in sample 17",
        "data-nan",
    ),
    "shape": (lambda p: data_of(p, x=images(2)[..., :7]), "has shape [2, 3, 8, 7]", "bad-data"),
    "channels last": (
        lambda p: data_of(p, x=np.moveaxis(images(2), 1, -1)),
        "np.moveaxis(array, -1, 1) is of [2, 3, 8, 8]",
        "bad-data",
    ),
    "dtype": (
        lambda p: data_of(p, x=images(2).astype("f8")),
        "array.astype('float32')",
        "bad-data",
    ),
    "missing": (lambda p: data_of(p, image=images(2)), "missing: x", "bad-data"),
    "no sample": (lambda p: data_of(p, x=images(0)), "there are no samples", "empty-data"),
    "nothing": (lambda p: data_of(p), "missing: x", "bad-data"),
    "objects": (lambda p: data_of(p, x=objects()), "has dtype object", "bad-data"),
    "header": (header, "but 64 follow its header", "unreadable-file"),
    "too large": (
        lambda p: data_of(p, x=np.full((2, 3, 8, 8), 3e38, np.float32)),
        "the float model itself gives NaN in 'y'",
        "float-nan",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_data(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make, said, code = BAD[name]
    path, out = detector(tmp_path), tmp_path / "q.onnx"
    make(tmp_path)
    command = ["quantize", str(path), "-d", str(tmp_path / "data.npz"), "-o", str(out)]
    assert main([*command, "--race=0"]) == 1
    shown = capsys.readouterr().err
    assert said in shown
    assert shown.count("error:") == 1 and "Traceback" not in shown
    assert not out.exists()
    work = Quantization(
        qd.load(path), qd.Recipe(), get_target("onnxruntime"), data=tmp_path / "data.npz"
    )
    with pytest.raises(InputError) as refused:
        measure(work.model, work.run().model, work.judged_samples(), work.target)
    assert refused.value.code == code


def test_one_sample_is_enough_to_quantize(tmp_path: Path) -> None:
    path, out = detector(tmp_path), tmp_path / "q.onnx"
    data = data_of(tmp_path, x=images(1))
    assert main(["quantize", str(path), "-d", str(data), "-o", str(out), "--race=0", "-q"]) == 0


def drowned(folder: Path) -> tuple[Path, Path]:
    """A product that does not look at the largest of its inputs, and data: codes of the input are
    of that."""
    weight = RANDOM.normal(size=(16, 64)).astype("f4")
    weight[0] = 0
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "product")]
    values = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, k])
        for n, k in (("x", 16), ("y", 64))
    ]
    graph = helper.make_graph(
        nodes, "g", values[:1], values[1:], [numpy_helper.from_array(weight, "w")]
    )
    path = folder / "product.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    x = RANDOM.normal(size=(32, 16)).astype("f4")
    x[:, 0] *= 120
    return path, data_of(folder, x=x)


def test_an_output_that_is_mostly_noise_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path, data), out = drowned(tmp_path), tmp_path / "q.mlir"
    usual = ["quantize", str(path), "-d", str(data), "--calibration=minmax", "-o"]
    command = [*usual, str(out), "--target=tosa"]
    assert main(command) == 1
    said = capsys.readouterr().err
    assert "of 'y'" in said and "at least 6 dB are wanted" in said and "held out" in said
    assert "'product' loses most" in said and not out.exists()
    assert main([*command, "--best-effort"]) == 0 and out.exists()
    # The race takes what keeps 6 dB, and says what rejects the others. (Without the dot products of
    # newer processors, sums of it saturate in ONNX Runtime, too.)
    capsys.readouterr()
    assert main([*usual, str(tmp_path / "q.onnx"), "--time=100ms"]) == 0
    said = capsys.readouterr().err
    assert "by rules is rejected: " in said or "by rules is no candidate: dead" in said


def test_a_quantized_model_is_written_where_floats_are_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from qdialect.workflows import candidates
    from qdialect.workflows.race import Lap, Race

    def slow(self: object, names: Any, seconds: float) -> Race:
        ratios = {"float": 1.0, "float, optimized": 0.9, "weights at load": 0.95}
        return Race({n: Lap(1.0, r, r, r, 99) for n in names for r in (ratios.get(n, 1.5),)})

    monkeypatch.setattr(candidates.Loop, "race", slow)
    (path, data), out = drowned(tmp_path), tmp_path / "q.onnx"
    command = ["quantize", str(path), "-d", str(data), "-o", str(out), "--time=100ms", "--json"]
    assert main(command) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["candidates"]["chosen"] == "weights at load"
    assert [left["code"] for left in found["left_float"]].count("weights-only") == 1
    assert out.stat().st_size < path.stat().st_size / 2
    stored = {t.data_type for t in onnx.load(out).graph.initializer if np.prod(t.dims) == 1024}
    assert stored == {TensorProto.INT8}
    assert main([*command, "--force", "--allow-float"]) == 0
    assert json.loads(capsys.readouterr().out)["candidates"]["chosen"] == "float, optimized"
