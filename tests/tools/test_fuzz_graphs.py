"""Random ONNX graphs and networks compute the same after `optimize`; and what is wrong is found."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import qdialect as qd
from qdialect.interpreter import Interpreter
from tests.generators.graphs.feeds import random_feeds
from tests.generators.graphs.maker import random_graph
from tests.generators.networks import BATCH, random_model
from tests.generators.networks import random_feeds as network_feeds
from tests.support.smaller_models import reduced
from tools.fuzz import graphs as fuzz_graphs
from tools.fuzz.graphs import failure, fuzz


def small_model() -> onnx.ModelProto:
    """A pair around a Relu."""
    constants = [
        numpy_helper.from_array(np.float32(0.5), "s"),
        numpy_helper.from_array(np.int8(1), "z"),
    ]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("Relu", ["d"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model


def test_graphs_have_all_that_graphs_have() -> None:
    ops, opsets, ranks, extents, dims = (set[object]() for _ in range(5))
    functions = 0
    for seed in range(150):
        model = random_graph(seed)
        opsets.add(model.opset_import[0].version)
        ops |= {node.op_type for node in model.graph.node}
        functions += len(model.functions)
        for value in model.graph.input:
            shape = value.type.tensor_type.shape.dim
            ranks.add(len(shape))
            extents |= {dim.dim_value for dim in shape if dim.HasField("dim_value")}
            dims |= {dim.dim_param for dim in shape}
    assert opsets == set(range(11, 24))
    assert ranks == set(range(7))
    assert {0, 1} <= extents and len(dims) > 3
    assert {
        "QuantizeLinear",
        "Conv",
        "MatMul",
        "If",
        "Loop",
        "Slice",
        "Sin",
        "MatMulInteger",
    } <= ops
    assert len(ops) > 100 and functions


def test_networks_have_all_that_networks_have() -> None:
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


def test_inputs_are_as_the_network_says() -> None:
    for seed in range(40):
        model = random_model(seed)
        for feeds in (random_feeds(model, 1), network_feeds(model, 1)):
            for value in model.graph.input:
                shape = [d.dim_value or BATCH for d in value.type.tensor_type.shape.dim]
                assert list(feeds[value.name].shape) == shape


def test_graphs_follow_from_the_seed() -> None:
    for seed in (3, 8):
        assert random_graph(seed).SerializeToString() == random_graph(seed).SerializeToString()


def test_nothing_fails() -> None:
    tally = fuzz(iter(range(1000, 1030)))
    assert tally.failed == []
    assert tally.graphs == 30 and tally.kinds["invalid"] <= 2 and tally.nodes > 100


def test_no_network_changes(tmp_path: Path) -> None:
    tally = fuzz(iter(range(12)), source="networks")
    assert tally.failed == []
    assert tally.graphs == 12 and tally.kinds["invalid"] <= 1
    assert len(tally.ops) > 20
    fired = 0
    for seed in range(8):
        onnx.save(random_model(seed), tmp_path / "m.onnx")
        fired += sum(qd.optimize(qd.load(tmp_path / "m.onnx")).ctx.remarks.fired().values())
    assert fired > 5


def test_ties_and_extremes_are_among_the_inputs() -> None:
    model = small_model()
    ties = random_feeds(model, 1)["x"] / np.float32(0.5)
    assert np.array_equal(ties * 2, np.rint(ties * 2))
    assert np.abs(random_feeds(model, 2)["x"]).max() >= 1


def test_a_wrong_result_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert failure(small_model(), tmp_path)[0] == ""
    real = qd.optimize

    def wrong(model: qd.Model, target: str) -> qd.Model:
        other = tmp_path / "other.onnx"
        data = small_model()
        data.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.int8(2), "z"))
        onnx.save(data, other)
        return real(qd.load(other), target)

    monkeypatch.setattr(qd, "optimize", wrong)
    kind, told = failure(small_model(), tmp_path)
    assert kind == "bits" and "differs in" in told


def test_a_wrong_interpreter_is_found_and_the_network_reduced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is wrong wherever there is a leaky_relu."""
    real = Interpreter.run

    def wrong(self: Interpreter, *args: object, **more: object) -> object:
        results = real(self, *args, **more)  # pyright: ignore
        text = "".join(str(op) for op in self.module.walk() if op.name == "nn.leaky_relu")
        return [r + 1 for r in results] if text else results  # pyright: ignore

    def kind(model: onnx.ModelProto) -> str:
        return failure(model, tmp_path, optimized=False, network=True)[0]

    monkeypatch.setattr(Interpreter, "run", wrong)
    for seed in count():
        model = random_model(seed, 10)
        if "LeakyRelu" in {node.op_type for node in model.graph.node} and kind(model):
            break
    assert kind(model) == "imported"
    small = reduced(model, lambda m: kind(m) == "imported", 20)
    kinds = [node.op_type for node in small.graph.node]
    assert "LeakyRelu" in kinds and len(kinds) <= 3, kinds
    assert len(small.graph.output) == 1 and len(small.graph.initializer) <= 2


def test_crashes_and_refusals_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crashes(*_: object) -> None:
        raise ValueError("no")

    monkeypatch.setattr(qd, "optimize", crashes)
    assert failure(small_model(), tmp_path)[0].startswith("crashed ValueError")
    broken = small_model()
    broken.graph.node[2].op_type = "Rlu"
    assert failure(broken, tmp_path)[0] == "invalid"


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(small_model(), path)
    assert fuzz_graphs.main(["--try", str(path)]) == 0
    assert "same" in capsys.readouterr().out
    assert fuzz_graphs.main(["--networks", "--count", "2", "--first", "40"]) == 0
    assert "2 graphs" in capsys.readouterr().out


def test_what_fails_is_kept_and_made_smaller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> tuple[str, str]:
        return "bits", "differs"

    monkeypatch.setattr(fuzz_graphs, "failure", broken)
    fuzz_graphs.keep_small(3, "bits", tmp_path / "kept", 2.0, "networks")
    assert len(list((tmp_path / "kept").iterdir())) == 2
