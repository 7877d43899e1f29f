"""What optimize and quantize say of a file is what its bytes say, in text, JSON and report."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

pytest.importorskip("onnxruntime")

from tests.support.commands import call, qopt
from tests.support.qdq_models import conv_relu
from tools.figures import check

SHAPE = [1, 3, 8, 8]


def saved(path: Path, nodes: list[Any], shape: list[int], **weights: Any) -> Path:
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        outputs,
        [numpy_helper.from_array(np.asarray(w, "f4"), name) for name, w in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)
    return path


def detector(path: Path) -> Path:
    """Boxes in pixels and scores, joined."""
    random = np.random.default_rng(1)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
        helper.make_node("Conv", ["x", "v"], ["d"], "score"),
        helper.make_node("Mul", ["c", "k"], ["b"], "boxes"),
        helper.make_node("Sigmoid", ["d"], ["s"], "sigmoid"),
        helper.make_node("Concat", ["b", "s"], ["y"], "concat", axis=1),
    ]
    w, v = random.normal(size=(4, 3, 3, 3)), random.normal(size=(3, 3, 3, 3))
    return saved(path, nodes, SHAPE, w=w, v=v, k=100)


def classifier(path: Path) -> Path:
    """A product behind a pool."""
    random = np.random.default_rng(2)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flat"),
        helper.make_node("MatMul", ["f", "v"], ["y"], "classes"),
    ]
    w, v = random.normal(size=(16, 3, 3, 3)), random.normal(size=(16, 5))
    return saved(path, nodes, SHAPE, w=w, v=v)


def quantized(path: Path) -> Path:
    """Casts around a convolution, as a quantizer writes them."""
    onnx.save(conv_relu([1, 3, 8, 8]), path)
    return path


def held(tmp_path: Path, source: Path, *words: str, text: bool = False) -> list[str]:
    """The figures of one command that disagree with its files."""
    random = np.random.default_rng(3)
    data, once, written = (tmp_path / name for name in ("data.npz", "x.npz", "out.onnx"))
    x = random.normal(size=(24, *SHAPE[1:])).astype("f4")
    np.savez(data, x=x)
    np.savez(once, x=x[:1])
    given = ["--data", str(data)] if words[0] == "quantize" else ["-i", str(once)]
    page, said, facts = (tmp_path / name for name in ("r.html", "said", "facts"))
    line = [words[0], str(source), "-o", str(written), *words[1:], *given, "--report", str(page)]
    ran = call(qopt, *line, "--json")
    assert ran.code == 0, ran.err
    facts.write_text(ran.out)
    told = ran.out
    if text:
        told = call(qopt, *line).err
    said.write_text(told)
    result = call(
        check.main,
        *(str(source), str(written), "--said", str(said), "--facts", str(facts)),
        *("--report", str(page), "--data" if words[0] == "quantize" else "--inputs", given[1]),
    )
    wrong = [one for one in result.out.splitlines() if one.startswith("!")]
    assert result.code == bool(wrong)
    assert int(re.findall(r"(\d+) figures", result.out)[0]) >= 10
    return wrong


@pytest.mark.parametrize("text", [False, True], ids=["json", "text"])
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (detector, ("quantize", "--time", "0", "--allow-dead")),
        (classifier, ("quantize", "--time", "0.1")),
        (quantized, ("optimize", "--race", "0.1")),
        (quantized, ("optimize", "--race", "0", "--form", "qoperator", "--numerics", "ties")),
    ],
)
def test_all_figures_are_those_of_the_files(
    tmp_path: Path, make: Any, words: tuple[str, ...], text: bool
) -> None:
    assert held(tmp_path, make(tmp_path / "in.onnx"), *words, text=text) == []


def test_what_is_wrong_and_what_is_not_understood_is_found(tmp_path: Path) -> None:
    source, said = quantized(tmp_path / "in.onnx"), tmp_path / "said"
    said.write_text("nodes executed   1   2\nfile   9 kB   9 kB   1.00\n17 things went well\n")
    result = call(check.main, str(source), str(source), "--said", str(said))
    assert result.code == 1
    wrong = [one.partition(":")[0] for one in result.out.splitlines() if one.startswith("!")]
    assert len(wrong) == 5 and "! a line that is not understood" in wrong


def test_it_shares_no_code_with_what_it_checks() -> None:
    code = "import sys; import tools.figures.check; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", f"import json; {code}"], capture_output=True, text=True, check=True
    )
    assert not [name for name in json.loads(done.stdout) if name.split(".")[0] == "qdialect"]
