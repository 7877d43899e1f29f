"""A float network of every registered op, alone and among others, quantized for every kind of
target: a model that verifies and is near, or ops that stay float for a reason that is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from qdialect.errors import InputError, UnsupportedError
from qdialect.interpreter import Interpreter, argument_names, output_names
from qdialect.ir.context import new_context
from qdialect.ir.ops.registry import op_names
from qdialect.ir.verify.verifier import verify_module
from qdialect.plugins.onnx.write import OrtEngine, write_model
from qdialect.quantizer.output_parts import parts_of
from qdialect.quantizer.profile.record import Profile, Settings
from qdialect.quantizer.quality import Judge
from qdialect.quantizer.recipe import Recipe
from qdialect.targets.base import Target
from qdialect.targets.installed import get_target
from qdialect.workflows.calibrate import calibrate, new_profile, open_data
from qdialect.workflows.interface_codes import InterfaceCodes
from qdialect.workflows.lower import lowered_model
from qdialect.workflows.model import Model, load, write_tflite
from qdialect.workflows.quantize import Quantization, Quantized
from tests.generators.programs import float_network

TARGETS = [get_target(name) for name in ("onnxruntime", "integer", "tosa", "litert")]
SAMPLES, JUDGED = 4, 2
MOST = 20
"""Elements that a network takes: steps of recurrent layers are written one by one."""
LEAST_DB, LEAST_SAME = 6.0, 0.7
"""Of float results, and the share of indices and conditions that stay the same."""

Arrays = Mapping[str, NDArray[Any]]


def _takes_floats(name: str) -> bool:
    """By its declaration: what is declared on stored integers, or of no operands, takes none."""
    behavior = new_context().behaviors.named(name)
    return behavior is not None and behavior.operands != () and behavior.on_stored is None


NAMES = [name for name in op_names() if _takes_floats(name)]


@dataclass
class Network:
    """A float model that computes numbers, what it was calibrated on, and whether ONNX Runtime
    runs it: some ops have no form there."""

    model: Model
    samples: Sequence[Arrays]
    runs: bool
    data: Path
    _profiles: list[Profile] = field(default_factory=list[Profile])

    @property
    def profile(self) -> Profile:
        if not self._profiles:
            start = new_profile(self.model, Settings("numpy"))
            data = open_data(self.model, self.data, False)
            self._profiles.append(calibrate(self.model, data, start, range(SAMPLES)))
        return self._profiles[0]

    def quantized(self, target: Target, recipe: Recipe) -> Quantized:
        return Quantization(self.model, recipe, target, profile=self.profile).run()


def _samples(model: Model, seed: int) -> Iterator[list[Arrays]]:
    """Numbers on both sides of 0, and such as a logarithm or a division takes too."""
    random = np.random.default_rng(seed)
    kinds = model.function().function_type.inputs
    shapes = [(SAMPLES, *kind.get_shape()) for kind in kinds]  # pyright: ignore
    drawn = [random.normal(size=shape).astype(np.float32) for shape in shapes]
    for each in (drawn, [np.abs(array) + np.float32(0.25) for array in drawn]):
        names = argument_names(model.function())
        yield [dict(zip(names, arrays, strict=True)) for arrays in zip(*each, strict=True)]


def _run(model: Model, sample: Arrays) -> Arrays:
    """In the interpreter, from floats to floats whatever the interface is."""
    interface = InterfaceCodes(model)
    codes = interface.codes(sample)
    outputs = interface.floats(Interpreter(model.ctx, model.module).run(list(codes.values())))
    # What is stored in bytes is near where its numbers are.
    arrays = [a.astype("f4") if a.dtype in (np.int8, np.uint8) else a for a in outputs]
    return dict(zip(output_names(model.function()), arrays, strict=True))


def _are_numbers(outputs: Arrays) -> bool:
    floats = [array for array in outputs.values() if array.dtype.kind == "f"]
    return all(np.isfinite(a).all() and np.abs(a).max(initial=0) < 1e3 for a in floats)


def _runs(model: Model, sample: Arrays) -> bool | None:
    """Whether ONNX Runtime runs it; None where it refuses the properties that were drawn."""
    try:
        OrtEngine(write_model(model.module, model.ctx).whole(), optimize=True).run(sample)
    except UnsupportedError:
        return False
    except InputError:
        return None
    return True


@cache
def _network(names: tuple[str, ...], folder: Path) -> Network:
    """The first one that can be drawn, computes numbers, and is not refused by ONNX Runtime."""
    for seed in count():
        assert seed < 1000, f"no float network of {names}"
        made = float_network(names, seed)
        if made is None:
            continue
        model = Model(*made)
        if sum(prod(kind.get_shape()) for kind in model.function().function_type.inputs) > MOST:
            continue
        for samples in _samples(model, seed):
            with np.errstate(all="ignore"):
                if not all(_are_numbers(_run(model, sample)) for sample in samples):
                    continue
            runs = _runs(model, samples[0])
            if runs is not None:
                data = folder / f"{names[0]}-{len(names)}-{seed}.npz"
                np.savez(data, **{n: np.stack([s[n] for s in samples]) for n in samples[0]})
                return Network(model, samples, runs, data)
            break
    raise AssertionError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


def _recipes(target: Target) -> Iterator[Recipe]:
    """8 and 16 bits."""
    usual = Recipe.of_target(target)
    yield usual
    yield replace(usual, activations="u16" if usual.activations == "u8" else "i16")


def _check(network: Network, target: Target, recipe: Recipe) -> None:
    """The quantized model verifies, is near the float model, and what stays float has a reason;
    where it is written, it is so whole, or for a reason not at all."""
    result = network.quantized(target, recipe)
    model, float_model = result.model, network.model
    verify_module(model.module, model.ctx.blobs, behaviors=model.ctx.behaviors)
    coverage = result.coverage
    # What copies all as it is, is gone.
    assert coverage.total or not any(op.name.startswith("nn.") for op in model.function().walk())
    assert all(left.reason and left.code for left in coverage.left)
    samples = network.samples[:JUDGED]
    parts = parts_of(float_model.module, float_model.ctx)
    judge = Judge(parts, [_run(float_model, sample) for sample in samples])
    for part in judge.judge([_run(model, sample) for sample in samples]).parts:
        near = part.sqnr_db >= LEAST_DB if part.is_real else (part.agreement or 0) >= LEAST_SAME
        assert near, (target.name, recipe, part)
    if target.name == "onnxruntime" and network.runs:
        written = write_model(model.module, model.ctx).whole()
        OrtEngine(written, optimize=True).run(network.samples[0])
    if target.name == "litert":
        with suppress(UnsupportedError):
            write_tflite(model, "tflite")


def test_what_takes_no_floats() -> None:
    assert set(op_names()) - set(NAMES) == {"nn.constant", "nn.table"}


@pytest.mark.parametrize("name", NAMES)
def test_alone(name: str, folder: Path) -> None:
    network = _network((name,), folder)
    for target in TARGETS:
        for recipe in _recipes(target):
            _check(network, target, recipe)


@pytest.mark.parametrize("name", NAMES)
def test_other_recipes(name: str, folder: Path) -> None:
    network, target = _network((name,), folder), TARGETS[0]
    usual, every = Recipe.of_target(target), frozenset({"all"})
    for recipe in (
        replace(usual, scheme="symmetric", per_channel=False),
        replace(usual, dynamic=every),
        replace(usual, weights_only=every),
    ):
        _check(network, target, recipe)


@pytest.mark.parametrize("name", NAMES)
def test_among_others(name: str, folder: Path) -> None:
    """Twice, with results that are returned and that others take, with and without floats."""
    network = _network((name, name, "nn.add", "nn.mul"), folder)
    for target in TARGETS[:2]:
        _check(network, target, Recipe.of_target(target))


def _written(text: str, folder: Path) -> Network:
    """A network that is written out, which ONNX Runtime runs."""
    path = folder / "network.mlir"
    path.write_text(f"func.func @main(%x: tensor<{text}\n}}\n")
    model = load(path)
    samples = next(_samples(model, 0))
    np.savez(path.with_suffix(".npz"), x=np.stack([sample["x"] for sample in samples]))
    return Network(model, samples, runs=True, data=path.with_suffix(".npz"))


def test_the_values_of_a_top_k_are_codes_and_its_indices_are_not(tmp_path: Path) -> None:
    network = _written(
        """2x9xf32> {nn.name = "x"}) -> (tensor<2x3xf32>, tensor<2x3xi64>) {
  %0, %1 = nn.top_k %x k 3 {nn.key = "k"} : (tensor<2x9xf32>) -> (tensor<2x3xf32>, tensor<2x3xi64>)
  return %0, %1 : tensor<2x3xf32>, tensor<2x3xi64>""",
        tmp_path,
    )
    for recipe in _recipes(TARGETS[0]):
        assert network.quantized(TARGETS[0], recipe).coverage.quantized == {"nn.top_k": 1}
        _check(network, TARGETS[0], recipe)


def test_comparisons_of_floats_are_told(tmp_path: Path) -> None:
    network = _written(
        """2x9xf32> {nn.name = "x"}) -> tensor<2x1xi64> {
  %0 = nn.arg_max %x axis 1 {nn.key = "most"} : (tensor<2x9xf32>) -> tensor<2x1xi64>
  return %0 : tensor<2x1xi64>""",
        tmp_path,
    )
    (left,) = network.quantized(TARGETS[1], Recipe.of_target(TARGETS[1])).coverage.left
    assert (left.key, left.code) == ("most", "moves-floats")


def test_a_dilated_mean_of_codes_loads(tmp_path: Path) -> None:
    """ONNX Runtime makes a kernel of it that knows no dilations."""
    network = _written(
        """1x1x9xf32> {nn.name = "x"}) -> tensor<1x1x5xf32> {
  %0 = nn.avg_pool1d %x kernel [3] dilations [2] {nn.key = "mean"} :
    (tensor<1x1x9xf32>) -> tensor<1x1x5xf32>
  return %0 : tensor<1x1x5xf32>""",
        tmp_path,
    )
    assert network.quantized(TARGETS[0], Recipe.of_target(TARGETS[0])).coverage.quantized
    _check(network, TARGETS[0], Recipe.of_target(TARGETS[0]))


def test_a_convolution_of_padding_alone_has_no_tosa(tmp_path: Path) -> None:
    network = _written(
        """1x1x1x1xf32> {nn.name = "x"}) -> tensor<1x1x1x1xf32> {
  %w = nn.constant dense<0.5> : tensor<1x1x1x1xf32> : tensor<1x1x1x1xf32>
  %0 = nn.conv2d %x, %w strides [2, 1] pads [1, 0, 0, 0] {nn.key = "c"} :
    (tensor<1x1x1x1xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x1x1xf32>
  return %0 : tensor<1x1x1x1xf32>""",
        tmp_path,
    )
    with pytest.raises(UnsupportedError, match="its windows reach nothing but padding"):
        lowered_model(network.model, "tosa")
