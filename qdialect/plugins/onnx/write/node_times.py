"""How long ONNX Runtime takes for each node that it executes, by its profiler.

The runtime names a node that it made of several after one of them, with an ending of its own;
`name` is without it. Of all runs the shortest counts: what else the machine does only adds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from qdialect.packages import package
from qdialect.plugins.onnx.write.engine import OrtEngine

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import ModelProto

FEWEST, MOST = 5, 100
"""Runs that are timed: at least and at most."""
_ENDING = re.compile(r"(_token_\d+|_nchwc|_nhwc|/duplicated\d*|_QDQ\w*|_quant)$")
_TIMED = "_kernel_time"
_QUANTIZE, _DEQUANTIZE, _TRANSPOSE = "QuantizeLinear", "DequantizeLinear", "Transpose"
CONVERSIONS = frozenset({_QUANTIZE, _DEQUANTIZE, _TRANSPOSE, "ReorderInput", "ReorderOutput"})
"""Kinds of nodes that the runtime inserts, or that stand between states of ops."""


@dataclass(frozen=True)
class NodeTime:
    """An executed node: what it may be named after (its name, and those of its results, without
    the runtime's ending) and what its users may be, its kind, nanoseconds, the elements of its
    results, whether the first thing it takes and gives are floats, and how many operands it has.
    """

    names: tuple[str, ...]
    users: tuple[str, ...]
    kind: str
    nanoseconds: float
    elements: int
    takes_floats: bool
    gives_floats: bool
    operands: int = 1


def node_times(
    models: Sequence[ModelProto | bytes | str | Path],
    inputs: Sequence[Mapping[str, NDArray[Any]]],
    seconds: float,
) -> list[list[NodeTime]]:
    """Of each model the nodes that the runtime executes for its `inputs` with all of its
    optimizations on one thread, in order. All run in turns, for about so many seconds.

    InputError (`runtime-refuses`, `runtime-fails`) where it does not load or run a model.
    """
    with TemporaryDirectory(prefix="qdialect-profile-") as folder:
        profiled = [_Profiled(model, Path(folder), n) for n, model in enumerate(models)]
        began, turns = monotonic(), 0
        while turns < FEWEST or (turns < MOST and monotonic() - began < seconds):
            for each, arrays in zip(profiled, inputs, strict=True):
                each.engine.nanoseconds(arrays)
            turns += 1
        return [each.times() for each in profiled]


class _Profiled:
    """A model that the runtime times."""

    def __init__(self, model: ModelProto | bytes | str | Path, folder: Path, number: int) -> None:
        saved = folder / f"{number}.onnx"
        profile = folder / f"profile-{number}"
        self.engine = OrtEngine(model, optimize=True, saved=saved, profile=profile)
        graph = package("onnx").load(str(saved), load_external_data=False).graph
        self._names = {node.name: _names(node.name, *node.output) for node in graph.node}
        self._users: dict[str, tuple[str, ...]] = {}
        takers: dict[str, list[Any]] = {}
        for node in graph.node:
            for name in node.input:
                takers.setdefault(name, []).append(node)
        for node in graph.node:
            below = [self._names[taker.name] for n in node.output for taker in takers.get(n, ())]
            self._users[node.name] = tuple(name for names in below for name in names)

    def times(self) -> list[NodeTime]:
        """The nodes, timed; the model does not run any more."""
        found: list[NodeTime] = []
        for name, (arguments, times) in executions(self.engine).items():
            takes, gives = (_types(arguments, f"{side}_type_shape") for side in ("input", "output"))
            node = NodeTime(
                self._names.get(name, _names(name)),
                self._users.get(name, ()),
                arguments["op_name"],
                min(times),
                sum(elements for _, elements in gives),
                bool(takes) and takes[0][0].startswith("float"),
                bool(gives) and gives[0][0].startswith("float"),
                len(takes),
            )
            found.append(node)
        return found


def executions(engine: OrtEngine) -> dict[str, tuple[Mapping[str, Any], list[float]]]:
    """What an engine that profiles says of its nodes, by name and in order: the arguments of a
    node, and the nanoseconds of each run; the engine ends its profile."""
    events: list[Any] = json.loads(engine.end_profiling().read_text("utf-8"))
    found: dict[str, tuple[Mapping[str, Any], list[float]]] = {}
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith(_TIMED):
            name = event["name"].removesuffix(_TIMED)
            found.setdefault(name, (event["args"], []))[1].append(1e3 * event["dur"])
    return found


def _names(*names: str) -> tuple[str, ...]:
    return tuple(map(_plain, names))


def _plain(name: str) -> str:
    while (shorter := _ENDING.sub("", name)) != name:
        name = shorter
    return name


def _types(arguments: Mapping[str, Any], side: str) -> list[tuple[str, int]]:
    """The element type and the number of elements of what a node takes or gives."""
    shapes: list[Mapping[str, list[int]]] = arguments.get(side, [])
    return [(kind, prod(shape)) for each in shapes for kind, shape in each.items()]


def conversion_times(seconds: float) -> dict[str, list[tuple[int, float]]]:
    """What a quantize, a dequantize and a transpose of codes of an image take here, by the kind
    of the node: elements and nanoseconds, of a small tensor and of a large one."""
    onnx = package("onnx")
    helper, tensor = onnx.helper, onnx.TensorProto
    nodes: list[Any] = []
    inputs: dict[str, NDArray[Any]] = {}
    entries: list[Any] = []
    results: list[Any] = []
    scales = [
        helper.make_tensor("scale", tensor.FLOAT, [], [0.1]),
        helper.make_tensor("zero", tensor.UINT8, [], [100]),
    ]
    for side in (4, 56):
        shape = [1, 32, side, side]
        turned = [1, side, side, 32]
        floats, codes = (f"{name}{side}" for name in ("floats", "codes"))
        inputs[floats] = np.linspace(-10, 10, prod(shape), dtype=np.float32).reshape(shape)
        inputs[codes] = (np.arange(prod(shape)) % 256).astype(np.uint8).reshape(shape)
        for kind, name, operands, given, made, result in (
            (_QUANTIZE, floats, ["scale", "zero"], tensor.FLOAT, tensor.UINT8, shape),
            (_DEQUANTIZE, codes, ["scale", "zero"], tensor.UINT8, tensor.FLOAT, shape),
            (_TRANSPOSE, codes, [], tensor.UINT8, tensor.UINT8, turned),
        ):
            output = f"{kind}{side}"
            node = helper.make_node(kind, [name, *operands], [output], name=output)
            if kind == _TRANSPOSE:
                node.attribute.append(helper.make_attribute("perm", [0, 2, 3, 1]))
            else:
                entries.append(helper.make_tensor_value_info(name, given, shape))
            nodes.append(node)
            results.append(helper.make_tensor_value_info(output, made, result))
    graph = helper.make_graph(nodes, "conversions", entries, results, scales)
    imports = [helper.make_opsetid("", 13)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    found: dict[str, list[tuple[int, float]]] = {}
    for node in node_times([model], [inputs], seconds)[0]:
        found.setdefault(node.kind, []).append((node.elements, node.nanoseconds))
    return found
