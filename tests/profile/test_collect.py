"""Engines, components and the samples of a data set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from profile_models import data_file, images, network
from xdsl.dialects.builtin import StringAttr, TensorType, f32
from xdsl.utils.test_value import create_ssa_value

from qdialect import api
from qdialect.errors import InputError
from qdialect.interpreter import Interpreter
from qdialect.ir import ops as nn
from qdialect.ir.context import new_context
from qdialect.ir.ops import default_components
from qdialect.ir.ops.components import Components
from qdialect.plugins.mlir.read import read_module, verify_module
from qdialect.plugins.onnx.read import import_model
from qdialect.plugins.onnx.write import external_data as beside
from qdialect.plugins.onnx.write import written
from qdialect.quantizer.profile.collector import Collector
from qdialect.quantizer.profile.data import DataSet
from qdialect.quantizer.profile.engines import RuntimeEngine, open_engine, slices
from qdialect.quantizer.profile.file import profile_text
from qdialect.quantizer.profile.instrument import instrument
from qdialect.quantizer.profile.model_identity import identify
from qdialect.quantizer.profile.record import CHANNELS, Channels, Profile, Settings
from qdialect.workflows.calibrate import calibrate, new_profile, open_data

ENGINES = ["numpy", "onnxruntime"]


@pytest.mark.parametrize("engine", ENGINES)
def test_composites_and_components_in_one_run(engine: str) -> None:
    model = network()
    before = str(model)
    plan = instrument(model.module, model.ctx)
    verify_module(plan.module, model.ctx)
    x = images(1)
    plain: dict[str, Any] = {}
    Interpreter(
        model.ctx,
        model.module,
        listeners=[lambda op, results: plain.update((k, results[0]) for k in nn.keys_of(op))],
    ).run({"x": x})
    found: dict[str, Any] = {}
    for keys, array in open_engine(engine, plan, model.ctx).run({"x": x}):
        assert not found.keys() & set(keys)
        found.update(dict.fromkeys(keys, np.array(array)))
    assert str(model) == before
    assert plain.keys() <= found.keys()
    for key, array in plain.items():
        np.testing.assert_allclose(found[key], array, rtol=1e-4, atol=1e-5)
    assert found["input:x"] is not None
    bias = found["fc"] - found["fc/matmul"]
    np.testing.assert_allclose(bias, np.broadcast_to(bias[0], bias.shape), atol=1e-5)
    np.testing.assert_allclose(
        found["norm"] - found["norm/scaled"],
        np.broadcast_to((found["norm"] - found["norm/scaled"])[:, :, :1, :1], found["norm"].shape),
        atol=1e-5,
    )
    np.testing.assert_allclose(found["probabilities/exp"].sum(1), found["probabilities/sum"][:, 0])
    assert found["probabilities/sub_max"].max() == 0
    for op in model.module.walk():
        if op.name in default_components():
            components = default_components()[op.name]
            assert set(components.roles_of(op)) <= set(components.roles)
            for role, (key,) in components.keys_of(op).items():
                assert key in found, role
            own = nn.keys_of(op)[0]
            assert (
                len([k for k in found if k.startswith(f"{own}/")])
                == len(components.roles_of(op)) - 1
            )


def test_one_piece_is_no_composite() -> None:
    x = create_ssa_value(TensorType(f32, [1, 4]))
    op = nn.FullyConnectedOp(x, create_ssa_value(TensorType(f32, [2, 4])))
    assert default_components()[op.name].roles_of(op) == ()
    assert default_components()[op.name].keys_of(op) == {}


def test_without_components() -> None:
    model = network()
    assert not any("/" in key for key in instrument(model.module, model.ctx, False).all_keys())


def test_a_backend_declares_its_own_components() -> None:
    model = network()

    def build(op: Any, pieces: Any) -> Any:
        shifted = pieces.add("shifted", nn.AddOp(op.operands[0], pieces.number(1.0)))
        return pieces.add("result", nn.SoftmaxOp(shifted))

    model.ctx.components[nn.SoftmaxOp.name] = Components(("shifted", "result"), build)
    keys = instrument(model.module, model.ctx).all_keys()
    assert "probabilities/shifted" in keys
    assert keys.count("probabilities") == 1


def test_a_key_taken_by_another_op_leaves_the_composite_whole() -> None:
    model = network()
    flat = next(op for op in model.module.walk() if op.name == "nn.flatten")
    flat.attributes[nn.KEY] = StringAttr("fc/matmul")
    keys = instrument(model.module, model.ctx).all_keys()
    assert keys.count("fc/matmul") == 1
    assert keys.count("fc") == 1


def test_keys_survive_passes() -> None:
    model = network()
    before = instrument(model.module, model.ctx).all_keys()
    done = api.run_passes(model, "fold-constants,canonicalize,cse,dce")
    assert instrument(done.module, done.ctx).all_keys() == before


def test_keys_that_are_there_twice() -> None:
    model = network()
    flat = next(op for op in model.module.walk() if op.name == "nn.flatten")
    flat.attributes[nn.KEY] = StringAttr("fc")
    with pytest.raises(InputError, match="two values have the key 'fc'"):
        instrument(model.module, model.ctx)


def test_nothing_to_observe() -> None:
    model = network()
    for op in model.module.walk():
        op.attributes.pop(nn.KEY, None)
    with pytest.raises(InputError, match="no float values with a key"):
        instrument(model.module, model.ctx)


def test_slices_bound_the_memory() -> None:
    assert list(slices([3, 3, 9, 1, 1, 1], 6)) == [(0, 2), (2, 3), (3, 6)]
    assert list(slices([], 6)) == []
    model = network()
    whole = RuntimeEngine(instrument(model.module, model.ctx), model.ctx)
    cut = RuntimeEngine(instrument(model.module, model.ctx), model.ctx, slice_bytes=1000)
    for (a, x), (b, y) in zip(whole.run({"x": images(1)}), cut.run({"x": images(1)}), strict=True):
        assert a == b
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("slice_bytes", [1 << 20, 1000])
def test_weights_beside_a_large_model(slice_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = network(), {"x": images(1)}
    plan = instrument(model.module, model.ctx)
    plain = list(RuntimeEngine(plan, model.ctx, slice_bytes).run(inputs))
    monkeypatch.setattr(beside, "LARGE", 1)
    monkeypatch.setattr(written, "LARGE_WEIGHT", 64)
    again = RuntimeEngine(instrument(model.module, model.ctx), model.ctx, slice_bytes)
    for (a, x), (b, y) in zip(plain, again.run(inputs), strict=True):
        assert a == b
        np.testing.assert_array_equal(x, y)


def test_values_of_unknown_rank() -> None:
    """What ONNX shape inference cannot tell; it is observed like anything else."""
    helper = onnx.helper
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["y"], name="reshape"),
        helper.make_node("Relu", ["y"], ["z"], name="relu"),
    ]
    inputs = [
        helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [6]),
        helper.make_tensor_value_info("shape", onnx.TensorProto.INT64, ["n"]),
    ]
    output = helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, ["a", "b"])
    graph = helper.make_graph(nodes, "net", inputs, [output])
    ctx = new_context()
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    module = import_model(model, ctx)
    feeds = {"x": np.arange(6, dtype=np.float32) - 3, "shape": np.array([2, 3])}
    for name in ENGINES:
        found = dict[str, Any]()
        for keys, array in open_engine(name, instrument(module, ctx), ctx).run(feeds):
            found.update(dict.fromkeys(keys, array.tolist()))
        assert found["relu"] == [[0, 0, 0], [0, 1, 2]]
        assert found["reshape"] == [[-3, -2, -1], [0, 1, 2]]


def test_digest_is_of_the_model(tmp_path: Path) -> None:
    model = network()
    digest = identify(model.module, model.ctx).digest
    assert identify(network().module, model.ctx).digest == digest
    api.save(model, tmp_path / "net.mlir")
    again = api.load(tmp_path / "net.mlir")
    assert identify(again.module, again.ctx).digest == digest
    softmax = next(op for op in model.module.walk() if op.name == "nn.softmax")
    softmax.attributes[nn.KEY] = StringAttr("other")
    assert identify(model.module, model.ctx).digest != digest


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("channels", CHANNELS)
def test_same_bytes_however_split(engine: str, channels: Channels, tmp_path: Path) -> None:
    model, source = network(), data_file(tmp_path)
    data = open_data(model, source, False)
    start = new_profile(model, Settings(engine, channels))
    whole = profile_text(calibrate(model, data, start, range(6)))
    parts = [calibrate(model, data, start, part) for part in ([0], [3, 4], [1, 2], [5])]
    merged = parts[0]
    for part in parts[1:]:
        merged = part.merge(merged)
    assert profile_text(merged) == whole
    assert profile_text(calibrate(model, data, parts[1], [0, 1, 2, 5])) == whole
    batches = tmp_path / "batches"
    batches.mkdir()
    np.save(batches / "a.npy", images()[:1])
    np.savez(batches / "b.npz", x=images()[1:])
    assert (
        profile_text(calibrate(model, open_data(model, batches, False), start, range(6))) == whole
    )
    assert profile_text(calibrate(model, data, start, [4], first=3)) != whole


def test_interface_for_programs(tmp_path: Path) -> None:
    profile = api.calibrate(network(), data_file(tmp_path), engine="onnxruntime")
    assert profile.samples == ((0, 6),)
    assert profile.entries["conv"].tensor.count[0] == 6 * 4 * 36
    assert sorted(profile.entries["conv"].samples) == list(range(6))


def test_a_sample_counts_as_a_whole_or_not_at_all() -> None:
    collector = Collector(Profile("d"))

    def broken() -> Any:
        yield ("a",), np.ones(3)
        raise KeyboardInterrupt

    collector.add(0, [(("a",), np.ones(3, np.float32))])
    with pytest.raises(KeyboardInterrupt):
        collector.add(1, broken())
    assert collector.profile().samples == ((0, 1),)
    with pytest.raises(InputError, match="would count twice"):
        collector.add(0, [])


# -- data -------------------------------------------------------------------------------


def dataset(path: Path, **more: Any) -> DataSet:
    model = network()
    return open_data(model, path, more.get("whole", False))


@pytest.mark.parametrize(
    ("shape", "count", "first"),
    [((4, 3, 6, 6), 4, (1, 3, 6, 6)), ((4, 2, 3, 6, 6), 4, (2, 3, 6, 6))],
)
def test_sample_axis(tmp_path: Path, shape: Any, count: int, first: Any) -> None:
    np.save(tmp_path / "x.npy", np.zeros(shape, np.float32))
    data = dataset(tmp_path / "x.npy")
    assert len(data) == count
    assert next(data.read([1]))["x"].shape == first


def test_whole_files(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=images(2))
    np.savez(tmp_path / "b.npz", x=images(3))
    assert len(dataset(tmp_path)) == 5
    data = dataset(tmp_path, whole=True)
    assert [s["x"].shape[0] for s in data.read([0, 1])] == [2, 3]


BAD = {
    "wrong shape": ({"x": np.zeros((2, 3, 6, 7), np.float32)}, "has shape [2, 3, 6, 7]"),
    "wrong type": ({"x": np.zeros((2, 3, 6, 6))}, "has dtype float64"),
    "missing": ({"y": np.zeros((2, 3, 6, 6), np.float32)}, "missing: x"),
    "unknown": ({"x": images(1), "y": images(1)}, "unknown: y"),
    "empty": ({"x": images(0)}, "there are no samples"),
    "objects": ({"x": np.array([None, 1])}, "has dtype object"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_data(name: str, tmp_path: Path) -> None:
    arrays, words = BAD[name]
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(InputError) as error:
        dataset(tmp_path / "x.npz")
    assert words in error.value.message
    assert "x.npz" in str(error.value)


def test_bad_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no \.npz or \.npy files"):
        dataset(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        dataset(tmp_path / "none.npz")
    for name in ("a.npz", "a.npy"):
        (tmp_path / name).write_bytes(b"nonsense")
        with pytest.raises(InputError, match="cannot read"):
            dataset(tmp_path / name)
    (tmp_path / "a.txt").write_text("1")
    with pytest.raises(InputError, match="calibration data is"):
        dataset(tmp_path / "a.txt")


def test_nan_in_data(tmp_path: Path) -> None:
    array = images(3)
    array[2, 0, 0, 0] = np.nan
    np.savez(tmp_path / "x.npz", x=array)
    with pytest.raises(InputError, match="input 'x' has NaN in sample 2"):
        list(dataset(tmp_path / "x.npz").read(range(3)))


def test_values_inside_a_call_are_not_observed() -> None:
    """The error names the function and stands at the call."""
    kind = "tensor<2xf32>"
    text = (
        f"func.func private @g(%a: {kind}) -> {kind} {{\n"
        f'  %0 = nn.relu %a {{nn.key = "r"}} : ({kind}) -> {kind}\n  return %0 : {kind}\n}}\n'
        f"func.func @main(%x: {kind}) -> {kind} {{\n"
        f"  %0 = func.call @g(%x) : ({kind}) -> {kind}\n  return %0 : {kind}\n}}\n"
    )
    ctx = new_context()
    with pytest.raises(InputError, match="values inside 'g' are not observed") as raised:
        instrument(read_module(text, ctx), ctx)
    assert raised.value.where is not None and raised.value.where.line == 6
