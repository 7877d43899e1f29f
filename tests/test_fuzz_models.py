"""Random ONNX models are the same models after `optimize`; and a wrong rewrite is found."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

import numpy as np
import onnx
import pytest

import fuzz_models
from fuzz_models import failure, fuzz, reduced
from qdialect.reference import Interpreter
from random_models import BATCH, random_feeds, random_model


def test_no_model_changes() -> None:
    tally = fuzz(iter(range(12)), 14)
    assert tally.failures == []
    assert tally.models == 12 and tally.refused <= 1
    assert tally.compared > 100 and tally.fired.total() > 5
    assert len(tally.ops) > 20


def test_models_have_all_that_models_have() -> None:
    ops, opsets, domains, dims, axes = (set[object]() for _ in range(5))
    for seed in range(150):
        model = random_model(seed)
        assert model.SerializeToString() == random_model(seed).SerializeToString()
        opsets.add(model.opset_import[0].version)
        for node in model.graph.node:
            ops.add(node.op_type)
            domains.add(node.domain)
            axes |= {a.i for a in node.attribute if a.name == "axis" and "Linear" in node.op_type}
        dims |= {d.dim_param for d in model.graph.input[0].type.tensor_type.shape.dim}
    assert {"If", "Conv", "Gemm", "MatMul", "Split", "Concat", "QuickGelu"} <= ops
    assert opsets == {13, 15, 17, 18, 19, 20, 21}
    assert domains == {"", "com.microsoft"}
    assert dims == {"", "n"}
    assert {0, 1} <= axes


def test_inputs_are_as_the_model_says() -> None:
    for seed in range(40):
        model = random_model(seed)
        feeds = random_feeds(model, 1)
        for value in model.graph.input:
            shape = [d.dim_value or BATCH for d in value.type.tensor_type.shape.dim]
            assert list(feeds[value.name].shape) == shape


def test_a_wrong_result_is_found_and_reduced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an interpreter that is wrong wherever there is a leaky_relu."""
    real = Interpreter.run

    def wrong(self: Interpreter, *args: object, **more: object) -> object:
        results = real(self, *args, **more)  # pyright: ignore
        text = "".join(str(op) for op in self.module.walk() if op.name == "nn.leaky_relu")
        return [r + 1 for r in results] if text else results  # pyright: ignore

    monkeypatch.setattr(Interpreter, "run", wrong)
    for seed in count():
        model = random_model(seed, 10)
        if any(node.op_type == "LeakyRelu" for node in model.graph.node):
            found = failure(model, tmp_path, ("imported",))
            if found is not None:
                break
    assert found[0] == "imported"
    small = reduced(model, lambda m: failure(m, tmp_path, ("imported",)) is not None, 20)
    kinds = [node.op_type for node in small.graph.node]
    assert "LeakyRelu" in kinds and len(kinds) <= 3, kinds
    assert len(small.graph.output) == 1 and len(small.graph.initializer) <= 2


def test_other_bits_are_told() -> None:
    model = random_model(3)
    names = [output.name for output in model.graph.output]
    feeds = [random_feeds(model, 0)]
    wanted = fuzz_models.run(model.SerializeToString(), feeds, names)
    fuzz_models._equal("returned", wanted, model, feeds, names)
    wanted[0][0] = np.nextafter(wanted[0][0], np.float32(9e9))
    with pytest.raises(fuzz_models.Failed, match="differs in"):
        fuzz_models._equal("returned", wanted, model, feeds, names)


def test_the_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fuzz_models.main(["--seeds", "2", "--first", "40"]) == 0
    assert "0 failures" in capsys.readouterr().out
    path = tmp_path / "m.onnx"
    onnx.save(random_model(1), path)
    assert fuzz_models.main(["--try", str(path)]) == 0
    assert "sound" in capsys.readouterr().out

    def broken(*_: object) -> None:
        raise json.JSONDecodeError("no", "", 0)

    monkeypatch.setattr(fuzz_models, "check_model", broken)
    assert fuzz_models.main(["--seeds", "1", "--ops", "3", "--keep", str(tmp_path / "kept")]) == 1
    assert len(list((tmp_path / "kept").iterdir())) == 2
