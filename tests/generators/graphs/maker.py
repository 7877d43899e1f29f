"""Random ONNX graphs drawn from the schemas of ONNX itself, not from what qdialect knows.

Every node is run in ONNX Runtime as soon as it is drawn, on one sample of the graph's inputs;
a node that the runtime does not take is dropped.  So shapes are those of the runtime and most
graphs are valid, whatever the operands are: extents of 0 and 1, ranks 0 to 6, scales that are
subnormal or huge, names with any character.  Everything follows from the seed.

    python -m tests.generators.graphs.maker 7 -o graph.onnx
"""

# pyright: basic
from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

from qdialect.engines.model_child import NARROW
from qdialect.plugins.onnx.write import OrtEngine

IR_VERSIONS = {11: 6, 12: 7, 13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10}
"""The oldest IR version of each opset; 11 for opset 23."""
LARGEST = 3000
"""No value has more elements."""
ODD = ("x:0", "a,b", "@f", "^bb0", "%0", "\u00fc\u2713", "two words", "-1", '"q"', "a/b.c", "x'",
       "?", "\\n", "!t", "#a", "arg0", "input", "_")  # fmt: skip
FOREIGN = "com.microsoft"
FOUR_BITS = "4 bits"
"""The text of a node whose result numpy cannot hold."""
COUNTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 25, 30)
SMALL = (np.int8, np.uint8, np.int16, np.uint16)


@dataclass(frozen=True)
class Value:
    """A tensor: its name, what it is on the sample, and whether it is a constant."""

    name: str
    array: np.ndarray
    constant: bool = False
    tensor: onnx.TensorProto | None = None
    """That of a constant which numpy cannot hold."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape


@dataclass
class Scope:
    """The nodes of a graph, a body or a function, and what they may read."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    function: bool = False


class Rejected(Exception):
    """The runtime does not take a node, or nothing fits its operands."""


class GraphMaker:
    """Draws one graph."""

    opsets: Sequence[int] = (11, 12, 13, 13, 14, 15, 16, 17, 18, 19, 20, 21, 21, 22, 23)

    def __init__(self, seed: int, count: int | None = None) -> None:
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.opset = self.random.choice(self.opsets)
        oldest = IR_VERSIONS.get(self.opset, 11)
        self.ir_version = self.random.randint(oldest, 11)
        self.odd = self.random.random() < 0.4
        self.dynamic = self.random.random() < 0.35
        self.scopes = [Scope()]
        self.initializers: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.functions: list[onnx.FunctionProto] = []
        self._symbols: dict[int, str] = {}
        self._count = 0
        self._recipes = self.recipes()
        self.scales: list[float] = []
        count = self.random.choice(COUNTS) if count is None else count
        for _ in range(self.random.choice((1, 1, 1, 2, 3))):
            self.add_input()
        self.grow(count)

    def recipes(self) -> Mapping[str, tuple[float, Callable[[Any, str], None]]]:
        """What is drawn: how often, and by which function."""
        from tests.generators.graphs.ops import RECIPES

        return RECIPES

    # -- values -------------------------------------------------------------------------

    @property
    def scope(self) -> Scope:
        return self.scopes[-1]

    @property
    def values(self) -> list[Value]:
        """What may be read here: a function reads nothing from outside."""
        if self.scope.function:
            return self.scope.values
        return [value for scope in self.scopes for value in scope.values]

    def chance(self, p: float) -> bool:
        return self.random.random() < p

    def name(self) -> str:
        self._count += 1
        odd = self.random.choice(ODD) if self.odd and self.chance(0.5) else "v"
        return f"{odd}{self._count}"

    def shape(self) -> list[int]:
        """Mostly that of an image or a sequence; any rank up to 6, now and then empty."""
        rank = self.random.choice((0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 5, 6))
        extents = (1, 2, 3, 4, 5, 6, 8) if rank < 5 else (1, 2, 3)
        shape = [self.random.choice(extents) for _ in range(rank)]
        if shape and self.chance(0.04):
            shape[self.random.randrange(rank)] = 0
        return shape

    def array(self, shape: Sequence[int], dtype: Any = np.float32) -> np.ndarray:
        """Random numbers of a type, large ones too."""
        kind = np.dtype(dtype)
        if kind == np.bool_:
            return np.asarray(self.numbers.integers(0, 2, shape) > 0)
        if kind.kind in "iu":
            limits = np.iinfo(kind)
            wide = kind.itemsize == 1 or self.chance(0.1)
            low, high = (limits.min, limits.max) if wide else (max(limits.min, -9), 9)
            return np.asarray(self.numbers.integers(low, high, shape, endpoint=True, dtype=kind))
        spread = self.random.choice((1.0, 1.0, 2.0, 0.1, 10.0))
        return np.asarray(self.numbers.normal(size=shape) * spread).astype(kind)

    def add_input(self) -> Value:
        """A graph input: floats, or integers as networks of codes have them."""
        kinds = (np.float32,) * 8 + (np.uint8, np.int8, np.int64, np.int32, np.float16, np.bool_)
        array = self.array(self.shape(), self.random.choice(kinds))
        name = self.name()
        dims: list[Any] | None = [
            self._symbol(n) if self.dynamic and self.chance(0.5) else n for n in array.shape
        ]
        if self.dynamic and self.chance(0.08):
            dims = None
        code = helper.np_dtype_to_tensor_dtype(array.dtype)
        self.inputs.append(
            helper.make_tensor_value_info(name, code, dims, doc_string=f"{list(array.shape)}")
        )
        value = Value(name, array)
        self.scopes[0].values.append(value)
        return value

    def _symbol(self, extent: int) -> str | None:
        if self.chance(0.1):
            return None
        return self._symbols.setdefault(extent, self.random.choice("NTHW") + f"_{extent}")

    def constant(self, array: Any, dtype: Any = None) -> str:
        """An initializer or a Constant node; now and then one that is there already."""
        array = np.asarray(array, dtype)
        for value in self.values:
            same = value.constant and value.array.dtype == array.dtype
            same = same and value.shape == array.shape and np.array_equal(value.array, array)
            if same and self.chance(0.6):
                return value.name
        name = self.name()
        tensor = numpy_helper.from_array(array, name)
        if self.scope.function or self.chance(0.15):
            node = helper.make_node("Constant", [], [name], value=tensor)
            self.scope.nodes.append(node)
            self.scope.values.append(Value(name, array, True))
            return name
        self.initializers.append(tensor)
        if self.ir_version >= 4 and self.chance(0.05):
            self.inputs.append(
                helper.make_tensor_value_info(name, tensor.data_type, list(array.shape))
            )
        self.scopes[0].values.append(Value(name, array, True))
        return name

    def pick(
        self, kinds: Any = (np.float32,), fits: Callable[[np.ndarray], bool] | None = None
    ) -> Value:
        """A value of one of these types, a late one more often."""
        wanted = {np.dtype(kind) for kind in kinds}
        found = [
            value
            for value in self.values
            if value.array.dtype in wanted and (fits is None or fits(value.array))
        ]
        computed = [value for value in found if not value.constant]
        found = computed if computed and not self.chance(0.04) else found
        if not found:
            raise Rejected("no operand")
        return self.random.choice(found[-4:] if self.chance(0.6) else found)

    def at(self, name: str) -> np.ndarray:
        """What a tensor is on the sample."""
        return next(value.array for value in reversed(self.values) if value.name == name)

    # -- nodes ----------------------------------------------------------------------------

    def node(
        self,
        kind: str,
        inputs: Sequence[str],
        outputs: int = 1,
        domain: str = "",
        **attributes: Any,
    ) -> onnx.NodeProto:
        """A node that is not yet part of the graph."""
        names = [self.name() for _ in range(outputs)]
        label = self.random.choice((f"{kind}{self._count}",) * 4 + ("", names[0]))
        node = helper.make_node(kind, inputs, names, name=label, domain=domain)
        for key, value in attributes.items():
            empty = isinstance(value, list) and not value  # onnx cannot tell of what
            ints = onnx.AttributeProto.INTS if empty else None
            node.attribute.append(helper.make_attribute(key, value, attr_type=ints))
        return node

    def add(self, *nodes: onnx.NodeProto) -> Value:
        """Append nodes that the runtime takes; the last one's first output. Rejected else."""
        arrays = self.evaluate(nodes)
        for node in nodes:
            self.scope.nodes.append(node)
            self.scope.values += [Value(n, arrays[n]) for n in node.output if n in arrays]
        last = next(name for name in nodes[-1].output if name)
        return next(value for value in self.scope.values if value.name == last)

    def apply(self, kind: str, inputs: Sequence[str], outputs: int = 1, **attributes: Any) -> Value:
        return self.add(self.node(kind, inputs, outputs, **attributes))

    def evaluate(self, nodes: Sequence[onnx.NodeProto]) -> dict[str, np.ndarray]:
        """What the nodes give on the sample, as the runtime computes it."""
        made = {name for node in nodes for name in node.output if name}
        known = {value.name: value for value in self.values}
        needed = sorted(names_read(nodes) - made)
        if any(name not in known for name in needed):
            raise Rejected("reads what is not there")
        fixed = [
            known[n].tensor or numpy_helper.from_array(known[n].array, n)
            for n in needed
            if known[n].constant
        ]
        given = {n: known[n].array for n in needed if not known[n].constant}
        inputs = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in given.items()
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in _fetched(nodes)]
        graph = helper.make_graph(list(nodes), "one", inputs, outputs, fixed)
        try:
            found = run_off(self._model(graph), given)
        except Exception as error:
            raise Rejected(str(error)) from None
        arrays = {o.name: a for o, a in zip(outputs, found, strict=True)}
        for array in arrays.values():
            if not isinstance(array, np.ndarray) or array.size > LARGEST or array.ndim > 6:
                raise Rejected("too large")
            if array.dtype.kind == "f" and np.isnan(array).any():
                raise Rejected("not a number")
        return arrays

    def grow(self, count: int, kinds: Sequence[str] = ()) -> None:
        """Draw nodes until there are so many more."""
        until = len(self.scope.nodes) + count
        names = list(self._recipes)
        weights = [self._recipes[name][0] for name in names]
        for _ in range(8 * count + 4):
            if len(self.scope.nodes) >= until:
                break
            (kind,) = [self.random.choice(kinds)] if kinds else self.random.choices(names, weights)
            try:
                self._recipes[kind][1](self, kind)
            except Rejected:
                continue

    @contextmanager
    def inner(self, function: bool = False, values: Sequence[Value] = ()):
        """Draw into a body of its own."""
        scope = Scope(values=list(values), function=function)
        self.scopes.append(scope)
        try:
            yield scope
        finally:
            self.scopes.pop()

    # -- the model ------------------------------------------------------------------------

    def _model(self, graph: onnx.GraphProto) -> onnx.ModelProto:
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(FOREIGN, 1)]
        if self.functions:
            opsets.append(helper.make_opsetid("local", 1))
        model = helper.make_model(graph, opset_imports=opsets, functions=self.functions)
        model.ir_version = max(self.ir_version, 8) if self.functions else self.ir_version
        return model

    def model(self) -> onnx.ModelProto:
        """Some of the values nobody reads are outputs, the others dead; so may be any other."""
        nodes = self.scopes[0].nodes
        read = names_read(nodes)
        made = {name for node in nodes for name in node.output}
        fetchable = [v for v in self.scopes[0].values if v.name in made]
        ends = [v for v in fetchable if v.name not in read]
        inner = [v for v in fetchable if v.name in read]
        outputs = [v for v in ends if self.chance(0.8)] or ends[-1:] or self.scopes[0].values[:1]
        outputs += self.random.sample(inner, min(len(inner), self.random.choice((0, 0, 0, 1, 2))))
        if self.chance(0.05):
            outputs.append(self.random.choice(self.scopes[0].values))
        unique = list({value.name: value for value in outputs}.values())
        graph = helper.make_graph(
            nodes,
            self.random.choice(("g", "main", "torch-jit-export", "a b")),
            self.inputs,
            [self._result(value) for value in unique],
            self._used(nodes, {value.name for value in unique}),
        )
        return self._model(graph)

    def _used(self, nodes: Sequence[onnx.NodeProto], outputs: set[str]) -> list[onnx.TensorProto]:
        """The initializers; those nobody reads stay now and then."""
        read = names_read(nodes) | outputs | {info.name for info in self.inputs}
        return [t for t in self.initializers if t.name in read or self.chance(0.1)]

    def _result(self, value: Value) -> onnx.ValueInfoProto:
        info = next((info for info in self.inputs if info.name == value.name), None)
        if info is not None:
            return info
        code = helper.np_dtype_to_tensor_dtype(value.array.dtype)
        shape: list[Any] | None = list(value.shape)
        if self.dynamic or self.chance(0.3):
            shape = [f"o{self._count}_{i}" for i in range(len(value.shape))]
        if self.chance(0.03):
            shape = None
        return helper.make_tensor_value_info(value.name, code, shape)


_OPTIONS = ort.SessionOptions()
_OPTIONS.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
_OPTIONS.intra_op_num_threads = 1
_OPTIONS.log_severity_level = 4


def run_off(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[Any]:
    """All outputs, the runtime's optimizations off."""
    session = ort.InferenceSession(
        model.SerializeToString(), _OPTIONS, providers=["CPUExecutionProvider"]
    )
    if all(array.dtype.isbuiltin == 1 for array in feeds.values()) and all(
        output.type[7:-1] not in NARROW for output in session.get_outputs()
    ):
        return list(session.run(None, feeds))
    return list(OrtEngine(model, optimize=False).run(feeds).values())


def names_read(nodes: Sequence[onnx.NodeProto]) -> set[str]:
    """What nodes read, bodies included."""
    names = {name for node in nodes for name in node.input if name}
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                made = {n for inner in attribute.g.node for n in inner.output}
                made |= {info.name for info in attribute.g.input}
                results = {info.name for info in attribute.g.output}
                names |= (names_read(attribute.g.node) | results) - made
    return names


def _fetched(nodes: Sequence[onnx.NodeProto]) -> list[str]:
    """What is looked at of nodes: numpy has no 4-bit integers, so nothing that only casts read."""
    names = [name for node in nodes for name in node.output if name]
    hidden = {node.output[0] for node in nodes if node.doc_string == FOUR_BITS}
    return [name for name in names if name not in hidden]


def random_graph(seed: int, count: int | None = None) -> onnx.ModelProto:
    """The model of a seed."""
    return GraphMaker(seed, count).model()


def main(arguments: Sequence[str] | None = None) -> None:
    """Write one graph."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("seed", type=int)
    parser.add_argument("-o", dest="output", type=Path)
    options = parser.parse_args(arguments)
    model = random_graph(options.seed)
    if options.output is not None:
        onnx.save(model, options.output)
    print(onnx.printer.to_text(model))


if __name__ == "__main__":
    main()
