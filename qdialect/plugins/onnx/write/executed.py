"""What ONNX Runtime executes of a model: the graph it makes of the file, read back and counted.

The runtime fuses, folds and inserts nodes before it runs anything, so the nodes of a file say
little of what takes time.  It saves the graph it made; types of values that it leaves out there
are followed from those it states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from qdialect.packages import package
from qdialect.plugins.onnx.write.engine import OrtEngine

if TYPE_CHECKING:
    from onnx import ModelProto

CASTS = frozenset({"QuantizeLinear", "DequantizeLinear"})
_CODES = ("QLinear", "QGemm", "QuantizeLinear", "DynamicQuantizeLinear")
"""How the names of ops begin that give integers whatever they take."""
_FLOATS = (
    *("DequantizeLinear", "MatMulIntegerToFloat", "DynamicQuantizeMatMul", "MatMulNBits"),
    "QAttention",
)
_INTEGERS = frozenset(
    {
        *("Shape", "Size", "ArgMax", "ArgMin", "NonZero", "MatMulInteger", "IsNaN", "IsInf"),
        *("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal", "And", "Or", "Not", "Xor"),
    }
)
"""Ops that give indices, sums or conditions."""


@dataclass(frozen=True)
class Executed:
    """Counts of the graph that the runtime runs: all nodes, those whose result is float by kind
    (DequantizeLinear left out), and QuantizeLinear and DequantizeLinear."""

    nodes: int
    floats: Mapping[str, int]
    casts: int

    @property
    def float_nodes(self) -> int:
        """How many nodes have a float result."""
        return sum(self.floats.values())

    def kinds(self, most: int = 4) -> str:
        """The float kinds, the most frequent first: "Conv 3, Add 1"."""
        ordered = sorted(self.floats.items(), key=lambda item: (-item[1], item[0]))
        shown = [f"{kind} {count}" for kind, count in ordered[:most]]
        return ", ".join([*shown, "..."] if len(ordered) > most else shown)

    def as_json(self) -> dict[str, Any]:
        """The counts as JSON writes them."""
        return {"nodes": self.nodes, "floats": dict(self.floats), "casts": self.casts}


def optimized_engine(
    model: ModelProto | bytes | str | Path, threads: int = 1
) -> tuple[OrtEngine, Executed]:
    """A session with all optimizations of the runtime, and what it executes.

    InputError (`runtime-refuses`) where the runtime does not load the model.
    """
    with TemporaryDirectory(prefix="qdialect-executed-") as folder:
        saved = Path(folder) / "model.onnx"
        engine = OrtEngine(model, optimize=True, threads=threads, saved=saved)
        graph = package("onnx").load(str(saved), load_external_data=False).graph
    return engine, count(graph)


def count(graph: Any) -> Executed:
    """The counts of a graph and of the bodies in it."""
    nodes, floats, casts = 0, Counter[str](), 0
    types = _types(graph)
    for node in graph.node:
        for name, kind in zip(node.output, _results(node, types), strict=True):
            types.setdefault(name, kind)
        inner = [count(body) for body in _bodies(node)]
        nodes += 1 + sum(one.nodes for one in inner)
        casts += (node.op_type in CASTS) + sum(one.casts for one in inner)
        for one in inner:
            floats.update(one.floats)
        made = {types[name] for name in node.output if name}
        if node.op_type not in CASTS and made & _float_types():
            floats[node.op_type] += 1
    return Executed(nodes, dict(floats), casts)


def _bodies(node: Any) -> list[Any]:
    return [
        body
        for attribute in node.attribute
        for body in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs)
    ]


def _types(graph: Any) -> dict[str, int]:
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    for entry in (*graph.input, *graph.value_info, *graph.output):
        if entry.type.HasField("tensor_type"):
            types[entry.name] = entry.type.tensor_type.elem_type
    return types


def _results(node: Any, types: Mapping[str, int]) -> Sequence[int]:
    """Element types of results that the graph does not state: from the kind of the op, else as
    its first operand that has one."""
    tensor = package("onnx").TensorProto
    kind = node.op_type
    read = node.input[kind == "Where" :]  # its first is a condition
    found = next((types[name] for name in read if name in types), tensor.FLOAT)
    # The eighth operand of a QGemm is the scale of its result, without which that is float.
    if kind.startswith(_FLOATS) or (kind == "QGemm" and len(node.input) < 8):
        found = tensor.FLOAT
    elif kind.startswith(_CODES):
        found = tensor.UINT8
    elif kind in _INTEGERS:
        found = tensor.INT64
    elif kind == "Cast":
        found = next(a.i for a in node.attribute if a.name == "to")
    return [found] * len(node.output)


def _float_types() -> frozenset[int]:
    tensor = package("onnx").TensorProto
    return frozenset({tensor.FLOAT, tensor.FLOAT16, tensor.BFLOAT16, tensor.DOUBLE})
