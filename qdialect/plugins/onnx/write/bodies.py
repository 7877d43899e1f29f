"""Bodies of `If`, `Loop` and `Scan` as models of their own, and back in the node.

The inputs of such a model are those of the body and what it reads from the graph around it;
constants from there are constants of the model. What the body keeps is its signature: its
inputs and outputs, by name and type. A type that the loop may change (an extent that grows with
each iteration) is not known, so that nothing is made of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp
from xdsl.ir import Attribute, SSAValue

from qdialect.ir.dialects.attributes import strings
from qdialect.ir.ops import constant_array, constant_of
from qdialect.ir.quant import element_type
from qdialect.ir.quant.elements import integer_width
from qdialect.ir.weights import BlobStore
from qdialect.packages import package
from qdialect.plugins.onnx.dialect import DATA_TYPES, MODEL, NodeOp, OpaqueType, ProtoAttr
from qdialect.plugins.onnx.write.graph import bytes_of, node_attribute
from qdialect.plugins.onnx.write.header import opset_imports, value_info
from qdialect.plugins.onnx.write.inner_graphs import graphs_in, graphs_of
from qdialect.plugins.onnx.write.nodes import rename

if TYPE_CHECKING:
    from onnx import (
        AttributeProto,
        GraphProto,
        ModelProto,
        TensorShapeProto,
        TypeProto,
        ValueInfoProto,
    )

WITH_BODIES = ("If", "Loop", "Scan")
_SMALL = 1 << 12
"""Bytes up to which a constant is copied into every body that reads it."""


@dataclass(frozen=True)
class Body:
    """One body of a node: the attribute that holds it, and the model it is."""

    op: NodeOp
    name: str
    graph: GraphProto
    model: ModelProto

    def attribute(self, written: ModelProto, prefix: str) -> AttributeProto:
        """The attribute with what the model was written as. Names that are new in it start with
        `prefix`, as around it they may be taken."""
        graph: GraphProto = package("onnx").GraphProto()
        graph.CopyFrom(self.graph)
        for field in ("node", "initializer", "sparse_initializer", "value_info"):
            graph.ClearField(field)
        graph.node.extend(written.graph.node)
        graph.initializer.extend(written.graph.initializer)
        kept = set(_defined(self.graph))
        _redefine(graph, {n: f"{prefix}/{n}" for n in _defined(graph) if n not in kept})
        return package("onnx.helper").make_attribute(self.name, graph)


def bodies_of(op: NodeOp, module: ModuleOp, store: BlobStore) -> Iterator[Body]:
    """The bodies of a node whose inputs and outputs have types."""
    if op.op_type.data not in WITH_BODIES or op.domain.data:
        return
    model = module.attributes.get(MODEL)
    header: Mapping[str, Attribute] = model.data if isinstance(model, DictionaryAttr) else {}
    imports = opset_imports(header.get("opset"))
    if "" not in imports or (op.op_type.data == "Scan" and imports[""] < 9):
        return
    for name, attribute in sorted(op.node_attributes.data.items()):
        if isinstance(attribute, ProtoAttr) and attribute.kind.data == "graph":
            graph = node_attribute(name, attribute, store).g
            around = _around(op, graph, store)
            if around is None or not all(v.type.WhichOneof("value") for v in _interface(graph)):
                continue
            yield Body(op, name, graph, _model(op, graph, around, header, imports))


def put(op: NodeOp, changed: Mapping[str, Attribute], store: BlobStore) -> None:
    """Give a node these attributes; it no longer captures what no body reads any more."""
    data = {**op.node_attributes.data, **changed}
    op.properties["attributes"] = DictionaryAttr(data)
    read: set[str] = set()
    for name, attribute in data.items():
        if isinstance(attribute, ProtoAttr):
            proto = node_attribute(name, attribute, store)
            for graph in (*proto.graphs, *((proto.g,) if proto.HasField("g") else ())):
                read |= _read(graph)
    captured = op.captured()
    kept = {name: value for name, value in captured.items() if name in read}
    first = len(op.operands) - len(captured)
    op.operands = [*list(op.operands)[:first], *kept.values()]
    op.properties["captures"] = strings(list(kept))


def _model(
    op: NodeOp,
    graph: GraphProto,
    around: GraphProto,
    header: Mapping[str, Attribute],
    imports: Mapping[str, int],
) -> ModelProto:
    helper = package("onnx.helper")
    around.name = graph.name or "body"
    around.input.extend(graph.input)
    around.output.extend(graph.output)
    around.initializer.extend(graph.initializer)
    around.sparse_initializer.extend(graph.sparse_initializer)
    around.value_info.extend(graph.value_info)
    around.node.extend(graph.node)
    if op.op_type.data != "If":
        _forget_changing_shapes(around, op, len(graph.input))
    opsets = [helper.make_opsetid(*entry) for entry in sorted(imports.items())]
    version = header.get("ir_version")
    number = version.value.data if isinstance(version, IntegerAttr) else 8
    return helper.make_model(around, opset_imports=opsets, ir_version=number)


def _around(op: NodeOp, graph: GraphProto, store: BlobStore) -> GraphProto | None:
    """A graph that has what `graph` reads from outside as inputs and constants; None if that is
    of a type that no input has."""
    made: GraphProto = package("onnx").GraphProto()
    read = _read(graph)
    readers = Counter(name for each in graphs_of(op, store) for name in _read(each))
    for name, value in op.captured().items():
        if name not in read:
            continue
        constant = constant_of(value)
        element = element_type(value.type)
        if constant is not None and element in DATA_TYPES and (integer_width(element) or 8) >= 8:
            array = constant_array(constant, store)
            if array.nbytes > _SMALL and not (value.has_one_use() and readers[name] == 1):
                made.input.append(value_info(name, value.type, DATA_TYPES[element], None))
                continue
            tensor = made.initializer.add()
            tensor.name, tensor.data_type = name, DATA_TYPES[element]
            tensor.dims.extend(array.shape)
            tensor.raw_data = bytes(bytes_of(array))
            continue
        info = _info(name, value)
        if info is None:
            return None
        made.input.append(info)
    return made


def _info(name: str, value: SSAValue) -> ValueInfoProto | None:
    if isinstance(value.type, OpaqueType):
        return value_info(name, value.type, None, None) if value.type.data else None
    code = DATA_TYPES.get(element_type(value.type))
    return None if code is None else value_info(name, value.type, code, None)


def _forget_changing_shapes(graph: GraphProto, op: NodeOp, inputs: int) -> None:
    """Of a value that one iteration hands to the next, only an extent that is said of both ends
    and of the first value is that of all."""
    states = list(graph.input)[len(graph.input) - inputs :]
    ends, first = list(graph.output), op.node_inputs()
    if op.op_type.data == "Loop":
        states, ends, first = states[2:], ends[1:], first[2:]
    else:
        slices = op.node_attributes.data.get("num_scan_inputs")
        assert isinstance(slices, IntegerAttr)
        states = states[: len(states) - slices.value.data]
    for state, end, value in zip(states, ends, first, strict=False):
        start = None if value is None else _info("", value)
        if start is not None and state.type.HasField("tensor_type"):
            _keep_common(state.type.tensor_type.shape, [end.type, start.type])
            if not _have_one_rank([state.type, end.type, start.type]):
                state.type.tensor_type.ClearField("shape")


def _keep_common(shape: TensorShapeProto, others: list[TypeProto]) -> None:
    for index, dim in enumerate(shape.dim):
        for other in others:
            dims = other.tensor_type.shape.dim
            if index >= len(dims) or not dim.dim_value or dims[index].dim_value != dim.dim_value:
                dim.Clear()


def _have_one_rank(types: list[TypeProto]) -> bool:
    tensors = [kind.tensor_type for kind in types]
    ranks = {len(t.shape.dim) if t.HasField("shape") else None for t in tensors}
    return len(ranks) == 1 and None not in ranks


def _interface(graph: GraphProto) -> Iterator[ValueInfoProto]:
    yield from graph.input
    yield from graph.output


def _defined(graph: GraphProto) -> Iterator[str]:
    yield from (v.name for v in _interface(graph))
    yield from (t.name for t in graph.initializer)
    for node in graph.node:
        yield from (name for name in node.output if name)


def _read(graph: GraphProto) -> set[str]:
    """The names that are read in a graph and in those inside."""
    found = {v.name for v in graph.output}
    for node in graph.node:
        found.update(node.input)
        for inner in graphs_in(node):
            found |= _read(inner)
    return found


def _redefine(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Give values of a graph other names, where they are made and wherever they are read."""
    for tensor in graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for inner in graphs_in(node):
            rename(inner, dict(names))
