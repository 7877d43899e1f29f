"""Writing modules: weights beside the text or inside, and files whole or not at all."""

from __future__ import annotations

import os
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import (
    ArrayAttr,
    IntegerType,
    ModuleOp,
    Signedness,
    StringAttr,
    TensorType,
    f32,
    i8,
)
from xdsl.printer import Printer

from qdialect.errors import InputError
from qdialect.ir.context import new_context
from qdialect.ir.ops import BlobAttr, ConstantOp, constant_array, make_constant
from qdialect.ir.weights import Blob, BlobStore, replacing
from qdialect.plugins.mlir.read import load_module, read_module
from qdialect.plugins.mlir.write import blob_keys, module_text, save_module
from qdialect.plugins.onnx.dialect import ProtoAttr


def module_with(array, element):
    ctx = new_context()
    return ModuleOp([make_constant(array, element, ctx.blobs)]), ctx


def first_array(module, ctx):
    op = next(iter(module.ops))
    assert isinstance(op, ConstantOp)
    return constant_array(op, ctx.blobs)


def test_weights_beside_the_text(tmp_path: Path) -> None:
    array = np.arange(1000, dtype=np.float32)
    module, ctx = module_with(array, f32)
    save_module(module, ctx, tmp_path / "x.mlir")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.mlir", "x.safetensors"]
    assert 'nn.blobs = "x.safetensors"' in (tmp_path / "x.mlir").read_text()
    assert "nn.blobs" not in module.attributes
    again = new_context()
    np.testing.assert_array_equal(
        first_array(load_module(tmp_path / "x.mlir", again), again), array
    )


@pytest.mark.parametrize("size", [3, 1000])
def test_weights_inside_the_text(tmp_path: Path, size: int) -> None:
    array = np.linspace(-1, 1, size, dtype=np.float32)
    module, ctx = module_with(array, f32)
    save_module(module, ctx, tmp_path / "x.mlir", inline_weights=True)
    assert [p.name for p in tmp_path.iterdir()] == ["x.mlir"]
    again = new_context()
    np.testing.assert_array_equal(
        first_array(load_module(tmp_path / "x.mlir", again), again), array
    )


@pytest.mark.parametrize("value", [0, 3])
def test_splats(value: int) -> None:
    module, ctx = module_with(np.full((5, 50), value, np.int8), i8)
    text = module_text(module, ctx, inline_weights=True)
    assert f"dense<{value}> : tensor<5x50xi8>" in text


def test_negative_zero_is_no_splat_with_zero() -> None:
    array = np.array([0.0, -0.0, 0.0], np.float32)
    module, ctx = module_with(array, f32)
    again = new_context()
    found = first_array(read_module(module_text(module, ctx), again), again)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(array))


@pytest.mark.parametrize("count", [1, 7, 101])
def test_special_floats_round_trip(count: int) -> None:
    special = [float("inf"), float("-inf"), 1e-45, -0.0, 3.4028235e38, 0.1, float("nan")]
    array = np.resize(np.array(special, np.float32), count)
    module, ctx = module_with(array, f32)
    again = new_context()
    text = module_text(module, ctx, inline_weights=True)
    found = first_array(read_module(text, again), again)
    np.testing.assert_array_equal(found.view(np.uint32), array.view(np.uint32))


def test_nothing_is_left_behind_on_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, ctx = module_with(np.arange(1000, dtype=np.float32), f32)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("qdialect.plugins.mlir.write.os.replace", full)
    with pytest.raises(InputError, match="No space left"):
        save_module(module, ctx, tmp_path / "x.mlir", inline_weights=True)
    assert list(tmp_path.iterdir()) == []


def test_a_foreign_weight_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    module, ctx = module_with(np.arange(1000, dtype=np.float32), f32)
    with pytest.raises(InputError, match="not a weight store"):
        save_module(module, ctx, tmp_path / "x.mlir")
    assert [p.name for p in tmp_path.iterdir()] == ["x.safetensors"]


def test_devices_are_written_to(tmp_path: Path) -> None:
    module, ctx = module_with(np.zeros(3, np.float32), f32)
    save_module(module, ctx, "/dev/null")
    assert Path("/dev/null").is_char_device()


def test_keys_inside_other_attributes_are_found() -> None:
    ctx = new_context()
    key = f'#nn.blob<"{"0" * 32}" : tensor<2xf32>>'
    module = read_module(f"module attributes {{a = [{{b = {key}}}]}} {{}}", ctx)
    assert blob_keys(module) == {"0" * 32}


def test_weights_inside_other_attributes_are_written(tmp_path: Path) -> None:
    ctx = new_context()
    data = np.arange(1000, dtype=np.uint8)
    key = ctx.blobs.add(data, "ui8")
    held = BlobAttr(StringAttr(key), TensorType(IntegerType(8, Signedness.UNSIGNED), [1000]))
    module = ModuleOp([], {"test.kept": ArrayAttr([ProtoAttr(StringAttr("tensor"), held)])})
    assert blob_keys(module) == {key}
    save_module(module, ctx, tmp_path / "x.mlir")
    again = new_context()
    load_module(tmp_path / "x.mlir", again)
    np.testing.assert_array_equal(again.blobs.get(key).array(), data)


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_files_have_the_permissions_of_any_new_file(tmp_path: Path, mask: int, mode: int) -> None:
    module, ctx = module_with(np.arange(1000, dtype=np.float32), f32)
    before = os.umask(mask)
    try:
        save_module(module, ctx, tmp_path / "x.mlir")
    finally:
        os.umask(before)
    assert {p.name: p.stat().st_mode & 0o777 for p in tmp_path.iterdir()} == {
        "x.mlir": mode,
        "x.safetensors": mode,
    }


def test_stores_of_one_session_do_not_change_each_others_weights(tmp_path: Path) -> None:
    for name, value in (("a", 1), ("b", 2), ("c", 1)):
        store = BlobStore()
        raw = np.full(100, value, np.uint8).data
        store._blobs["w"] = Blob("ui8", (100,), memoryview(raw))
        store.save(tmp_path / f"{name}.safetensors", ["w"])
    session = BlobStore()
    session.open(tmp_path / "a.safetensors")
    session.open(tmp_path / "c.safetensors")
    with pytest.raises(InputError, match="'w' is not the one that is open") as caught:
        session.open(tmp_path / "b.safetensors")
    assert caught.value.code == "bad-weight-store"
    assert session.get("w").array()[0] == 1


def test_a_device_is_written_to_and_not_replaced() -> None:
    with replacing(Path("/dev/null")) as path:
        path.write_text("x", encoding="utf-8")
    assert Path("/dev/null").is_char_device()


def test_stock_printer_writes_a_location_once() -> None:
    text = "func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
    text += "  %0 = nn.relu %x : (tensor<2xf32>) -> tensor<2xf32>\n"
    text += '  %1 = onnx.node "Foo" (%0) : (tensor<2xf32>) -> tensor<2xf32>\n'
    text += "  return %1 : tensor<2xf32>\n}\n"
    stream = StringIO()
    Printer(stream, print_debuginfo=True).print_op(read_module(text, new_context()))
    lines = [line for line in stream.getvalue().splitlines() if "nn." in line or "onnx." in line]
    assert [line.count("loc(") for line in lines] == [1, 1]
