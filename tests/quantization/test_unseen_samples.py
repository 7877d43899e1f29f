"""Networks with head room in their ranges, on samples that these have not seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import qdialect as qd
from qdialect.interpreter import Interpreter
from qdialect.quantizer.profile.record import Entry, Profile
from qdialect.quantizer.quality import decibels
from qdialect.quantizer.recipe import Recipe
from qdialect.quantizer.search import stages
from qdialect.quantizer.values import Values

WIDTH, DEPTH = 32, 6
SAMPLES, OTHERS = 32, 500


def relu_net(random: np.random.Generator) -> str:
    """Layers of He's weights; batches of any size."""
    lines: list[str] = []
    x = "%x"
    for n in range(DEPTH):
        weights = random.normal(0, np.sqrt(2 / WIDTH), (WIDTH, WIDTH)).astype("f4").tolist()
        lines += [
            f"%w{n} = nn.constant dense<{weights}> : {SQUARE} : {SQUARE}",
            f'%p{n} = nn.matmul {x}, %w{n} {{nn.key = "p{n}"}} : ({ROW}, {SQUARE}) -> {ROW}',
        ]
        x = f"%p{n}"
        if n < DEPTH - 1:
            lines.append(f'%r{n} = nn.relu {x} {{nn.key = "r{n}"}} : ({ROW}) -> {ROW}')
            x = f"%r{n}"
    head = f'func.func @main(%x: {ROW} {{nn.name = "x"}}) -> {ROW} {{'
    return "\n".join([head, *lines, f"func.return {x} : {ROW}", "}"])


ROW, SQUARE = f"tensor<1x{WIDTH}xf32>", f"tensor<{WIDTH}x{WIDTH}xf32>"


def pooled(model: qd.Model, quantized: qd.Model, inputs: np.ndarray) -> float:
    """dB over all samples, run one by one."""
    signal = noise = 0.0
    for sample in inputs:
        (wanted,), (got,) = (list(qd.run(m, {"x": sample}).values()) for m in (model, quantized))
        signal += float((wanted.astype("f8") ** 2).sum())
        noise += float(((wanted.astype("f8") - got) ** 2).sum())
    return decibels(signal, noise)


@pytest.mark.parametrize(("activations", "gain"), [("u8", 3.0), ("u16", 6.0)])
def test_a_relu_network_gains_on_samples_it_has_not_seen(
    tmp_path: Path, activations: str, gain: float
) -> None:
    random = np.random.default_rng(2)
    path, data = tmp_path / "net.mlir", tmp_path / "data.npz"
    path.write_text(relu_net(random))
    np.savez(data, x=random.normal(size=(SAMPLES, 1, WIDTH)).astype("f4"))
    others = random.normal(size=(OTHERS, 1, WIDTH)).astype("f4")
    model = qd.load(path)
    profile = qd.calibrate(model, data, engine="numpy")
    bare, room = (
        pooled(model, qd.quantize(model, profile=profile, recipe=recipe).model, others)
        for recipe in (Recipe(activations, unseen=0), Recipe(activations))
    )
    assert room > bare + gain


BOUNDED = """
func.func @main(%x: tensor<1x6x4xf32> {nn.name = "x"}) -> tensor<1x6x4xf32> {
  %c = nn.clip %x min -1.0 max 6.0 {nn.key = "clip"} : (tensor<1x6x4xf32>) -> tensor<1x6x4xf32>
  %s = nn.sigmoid %c {nn.key = "sigmoid"} : (tensor<1x6x4xf32>) -> tensor<1x6x4xf32>
  %p = nn.softmax %s axis 1 {nn.key = "softmax"} : (tensor<1x6x4xf32>) -> tensor<1x6x4xf32>
  %t = nn.transpose %p perm [0, 1, 2] {nn.key = "moved"}
    : (tensor<1x6x4xf32>) -> tensor<1x6x4xf32>
  %r = nn.add %t, %x {nn.key = "sum"}
    : (tensor<1x6x4xf32>, tensor<1x6x4xf32>) -> tensor<1x6x4xf32>
  func.return %r : tensor<1x6x4xf32>
}
"""


def test_no_range_goes_beyond_what_its_op_gives(tmp_path: Path) -> None:
    path, data = tmp_path / "net.mlir", tmp_path / "data.npz"
    path.write_text(BOUNDED)
    np.savez(data, x=np.random.default_rng(0).normal(size=(12, 1, 6, 4), scale=2).astype("f4"))
    model = qd.load(path)
    profile = qd.calibrate(model, data, engine="numpy")
    function = Interpreter(model.ctx, model.module).function()
    found, bare = (
        Values(function, model.ctx, profile, Recipe("u16", unseen=unseen)) for unseen in (100, 0)
    )
    ends: dict[str, tuple[float, float]] = {}
    for value in found.all_values():
        key = found.keys(value)[0]
        wide, seen = found.range(value), bare.range(value)
        assert wide is not None and seen is not None
        assert wide.low <= seen.low and seen.high <= wide.high
        ends[key] = wide.low, wide.high
        if key in ("sum", "input:x"):
            assert ends[key] == (2 * seen.low, 2 * seen.high)
    assert ends["clip"] == (-1, 6)
    for key in ("sigmoid", "softmax", "moved"):
        assert ends[key][0] == 0 and ends[key][1] <= 1


def test_data_decides_at_8_bits_only() -> None:
    for activations, tried in (("u8", True), ("i8", True), ("u16", False), ("i16", False)):
        assert ({"unseen": 0} in stages(Recipe(activations))[0]) is tried
    assert {"unseen": 0} not in stages(Recipe(unseen=0))[0]


def test_ranges_of_no_single_samples_are_those_of_all(tmp_path: Path) -> None:
    """As a profile has them of values whose samples do not say what they are of."""
    path, data = tmp_path / "net.mlir", tmp_path / "data.npz"
    path.write_text(BOUNDED)
    np.savez(data, x=np.random.default_rng(0).normal(size=(12, 1, 6, 4)).astype("f4"))
    model = qd.load(path)
    profile = qd.calibrate(model, data, engine="numpy")
    entries = {key: Entry(entry.tensor) for key, entry in profile.entries.items()}
    blank: Profile = replace(profile, entries=entries, derived={})
    function = Interpreter(model.ctx, model.module).function()
    room, bare = (Values(function, model.ctx, blank, Recipe(unseen=n)) for n in (100, 0))
    for value in room.all_values():
        assert room.range(value) == bare.range(value)
