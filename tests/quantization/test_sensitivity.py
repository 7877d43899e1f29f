"""What single ops cost: parts compute what the whole does, and losses are those of whole models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnx.parser
import pytest

import qdialect as qd
from qdialect.errors import InputError, UsageError
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.context import new_context
from qdialect.ir.ops import keys_of
from qdialect.plugins.mlir.read import read_module
from qdialect.quantizer.emission import emit
from qdialect.quantizer.grids import Grids, assign
from qdialect.quantizer.parts import split
from qdialect.quantizer.preparation import prepare
from qdialect.quantizer.profile.record import Profile
from qdialect.quantizer.recipe import Recipe
from qdialect.quantizer.selection import Selection, select
from qdialect.quantizer.sensitivity import losses, worst_noise
from qdialect.quantizer.values import Values
from qdialect.targets.installed import get_target
from qdialect.workflows.model import Model
from qdialect.workflows.run import open_engine
from qdialect.workflows.sensitivity import SensitivityRun
from tests.generators.float_networks import random_network

if TYPE_CHECKING:
    from qdialect.quantizer.search import Arrays, OpenRun

SEEDS = range(12)


def network(seed: int) -> tuple[Model, Profile, Sequence[Arrays]]:
    """A random network as it is quantized, a profile of it, and samples."""
    ctx = new_context()
    module = read_module(random_network(seed), ctx)
    random = np.random.default_rng(seed)
    shape = shape_of(Model(module, ctx).function().body.block.args[0])
    samples = [{"x": random.normal(size=shape).astype(np.float32)} for _ in range(3)]
    with TemporaryDirectory() as folder:
        data = Path(folder) / "data.npz"
        np.savez(data, x=np.stack([sample["x"] for sample in samples]))
        profile = qd.calibrate(Model(module, ctx), data)
    prepare(module, ctx, frozenset())
    return Model(module, ctx), profile, samples


def opened(model: Model) -> OpenRun:
    return lambda module: open_engine(Model(module, model.ctx), "numpy")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("count", [1, 3, 100])
def test_parts_compute_what_the_whole_does(seed: int, count: int) -> None:
    model, _, samples = network(seed)
    parts = split(model.function(), count)
    assert len(parts.parts) <= count
    for sample in samples:
        known = {number: sample[name] for number, name in enumerate(parts.arguments)}
        for part in parts.parts:
            known.update(part.run(opened(model)(part.module), known))
        expected = opened(model)(model.module)(sample)
        assert parts.returned.keys() == expected.keys()
        for name, array in expected.items():
            np.testing.assert_array_equal(known[parts.returned[name]], array)


def test_integers_that_stand_for_codes_are_not_cut() -> None:
    """Signless integers alone do not say whose codes they are: an exporter would guess."""
    codes = "tensor<2x!quant.uniform<u8:f32, 0.5>>"
    text = f"""func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {{
  %a = "quant.qcast"(%x) : (tensor<2xf32>) -> {codes}
  %b = "quant.scast"(%a) : ({codes}) -> tensor<2xi8>
  %c = "quant.scast"(%b) : (tensor<2xi8>) -> {codes}
  %d = "quant.dcast"(%c) : ({codes}) -> tensor<2xf32>
  return %d : tensor<2xf32>
}}"""
    ctx = new_context()
    parts = split(Model(read_module(text, ctx), ctx).function(), 100).parts
    assert [len(part.ops) for part in parts] == [1, 2, 1]
    known = {0: np.array([1, -1], np.float32)}
    for part in parts:
        known |= part.run(open_engine(Model(part.module, ctx), "onnxruntime"), known)
    np.testing.assert_array_equal(known[4], np.array([1, 0], np.float32))


def alone(model: Model, profile: Profile, samples: Sequence[Arrays], key: str) -> float:
    """The loss of one op by the definition: the whole model, casts around that op only."""
    clone = model.module.clone()
    values = Values(Model(clone, model.ctx).function(), model.ctx, profile, Recipe())
    whole = select(values)
    grids = assign(whole)
    (op,) = [op for op in whole.ops if key in keys_of(op)[:1]]
    only = Selection(values)
    only.ops[op] = whole.ops[op]
    few = Grids()
    for n, value in enumerate(op.operands):
        if (params := grids.operand(op, n)) is not None:
            few.uses[op, n] = few.qparams[value] = params
    few.constants = {place: c for place, c in grids.constants.items() if place[0] is op}
    for value in op.results:
        few.qparams[value] = grids.qparams[value]
        few.pairs[value] = None
    emit(only, few)
    before, after = (opened(model)(module) for module in (model.module, clone))
    return worst_noise([before(s) for s in samples], [after(s) for s in samples])


@pytest.mark.parametrize("seed", SEEDS)
def test_losses_are_those_of_the_whole_model_with_one_op_quantized(seed: int) -> None:
    model, profile, samples = network(seed)
    found = losses(model.module, model.ctx, profile, Recipe(), samples, opened(model))
    assert found
    for key, loss in found.items():
        assert loss == pytest.approx(alone(model, profile, samples, key), rel=1e-9, abs=1e-18)
    # Values of 16 bits have finer steps; their weights stay what they are.
    finer = losses(model.module, model.ctx, profile, Recipe("u16"), samples, opened(model))
    assert sum(finer.values()) <= sum(found.values())


def test_noise_is_that_of_the_worst_output() -> None:
    one = [{"a": np.array([3.0, 4.0]), "b": np.array([1.0]), "c": np.array([7])}]
    other = [{"a": np.array([3.0, 4.5]), "b": np.array([1.1]), "c": np.array([9])}]
    assert worst_noise(one, other) == pytest.approx(max(0.25 / 25, 0.01))
    assert worst_noise(one, one) == 0
    dead = [{"a": np.zeros(2)}]
    assert worst_noise(dead, [{"a": np.ones(2)}]) == np.inf
    assert worst_noise([{"a": np.ones(1)}], [{"a": np.array([np.nan])}]) == np.inf


@dataclass
class Files:
    """A network and data in files, and a run of all its ops."""

    folder: Path
    run: SensitivityRun

    @staticmethod
    def of(folder: Path) -> Files:
        path, data = folder / "net.mlir", folder / "data.npz"
        path.write_text(random_network(3))
        model = qd.load(path)
        shape = shape_of(model.function().body.block.args[0])
        x = np.random.default_rng(3).normal(size=(6, *shape)).astype(np.float32)
        np.savez(data, x=x)
        profile, target = qd.calibrate(model, data), get_target("onnxruntime")
        run = SensitivityRun(
            model,
            target,
            profile,
            Recipe(),
            data,
            (0, 2, 4),
            engine="numpy",
            state=folder / "state",
        )
        return Files(folder, run)

    def state(self) -> Path:
        (path,) = (self.folder / "state").iterdir()
        return path


def test_a_weight_behind_a_cast_is_in_no_part(tmp_path: Path) -> None:
    """What a node that we have no op for makes of constants alone is a constant, too."""
    text = """<ir_version: 9, opset_import: ["" : 17]>
    g (float[1,4] x) => (float[1,4] y) <double[4,4] w = {
        1, -2, 3, 4, 5, -6, 7, 8, -9, 1, 2, 3, -4, 5, 6, 7}>
    { c = Cast <to = 1> (w) p = MatMul (x, c) y = Relu (p) }"""
    path, data = tmp_path / "net.onnx", tmp_path / "data.npz"
    onnx.save(onnx.parser.parse_model(text), path)
    np.savez(data, x=np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32))
    model, target = qd.load(path), get_target("onnxruntime")
    profile = qd.calibrate(model, data)
    found = SensitivityRun(model, target, profile, Recipe(), data, (0, 1), roundings=True).run()
    assert {entry.op for entry in found} >= {"nn.matmul", "input"}
    assert all(np.isfinite(entry.loss) for entry in found)


def test_a_run_that_was_interrupted_goes_on(tmp_path: Path) -> None:
    files = Files.of(tmp_path)
    whole = replace(files.run, state=None).run()
    measured: list[int] = []

    def stop(numbers: Iterable[int], total: int) -> Iterator[int]:
        for number in numbers:
            if number == 2:
                raise KeyboardInterrupt
            yield number

    def count(numbers: Iterable[int], total: int) -> Iterator[int]:
        measured.append(total)
        yield from numbers

    with pytest.raises(KeyboardInterrupt):
        replace(files.run, watch=stop).run()
    assert len(files.state().read_text().splitlines()) == 2
    # The last line may be cut anywhere.
    files.state().write_text(files.state().read_text()[:-9])
    assert replace(files.run, watch=count).run() == whole
    assert measured == [len(whole) - 1]
    assert replace(files.run, watch=count).run() == whole
    assert measured == [len(whole) - 1]
    # Another recipe, other samples: nothing of that is known.
    replace(files.run, watch=count, recipe=Recipe("i8")).run()
    replace(files.run, watch=count, numbers=(1,)).run()
    assert (
        measured[1:] == [len(whole), len(whole)] and len(list((tmp_path / "state").iterdir())) == 3
    )


def test_a_state_that_cannot_be_kept(tmp_path: Path) -> None:
    run = Files.of(tmp_path).run
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot keep state here"):
        replace(run, state=tmp_path / "file" / "state").run()


def test_workers_measure_the_same(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="dask.distributed is not installed")
    run = replace(Files.of(tmp_path).run, state=None)
    assert replace(run, workers="2").run() == run.run()
    with pytest.raises(UsageError, match="from a file, and it is from none"):
        replace(run, workers="2", model=Model(run.model.module, run.model.ctx)).run()
    run.data.unlink()
    with pytest.raises(InputError, match="no such file"):
        replace(run, workers="1").run()
