"""What surrounds the graph: opset and IR versions, metadata, typed inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation

from qdialect.backends.onnx.graph import node_attribute
from qdialect.backends.onnx.quantization import required_opset
from qdialect.dialects.interface_metadata import QPARAMS, interface_text
from qdialect.dialects.key_metadata import KEYS, KeyTable
from qdialect.dialects.nn import MAX_POOLS, AveragePoolOp, NNOp, WindowOp, shape_of
from qdialect.dialects.onnx import MODEL, NodeOp, OpaqueType, ProtoAttr, package
from qdialect.dialects.quant import UniformType, quant_element
from qdialect.errors import UnsupportedError, Where
from qdialect.weights import BlobStore

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, ValueInfoProto

#: the opset of a module that was not imported from ONNX
DEFAULT_OPSET = 17
#: older ones mark inference otherwise
LEAST_OPSET = 6
#: ops that are written in a form of a later opset
OP_OPSETS = {
    "nn.fully_connected": 7,
    "nn.batch_norm": 9,
    "nn.slice": 10,
    "nn.lstm": 7,
    "nn.gru": 7,
    "nn.clip": 11,
    "nn.pad": 11,
    "nn.layer_norm": 17,
    "nn.attention": 23,
}
#: ops that broadcast as numpy does since this opset
BROADCASTING = {
    "nn.add": 7,
    "nn.sub": 7,
    "nn.mul": 7,
    "nn.div": 7,
    "nn.maximum": 8,
    "nn.minimum": 8,
}
#: ops that are written on 8-bit integers since this opset
INTEGER_OPSETS = {
    "nn.relu": 12,
    "nn.clip": 12,
    "nn.reduce_max": 12,
    "nn.reduce_min": 12,
    **{kind.name: 12 for kind in MAX_POOLS},
}


@dataclass
class ModelHeader:
    """Versions and metadata of the model to write."""

    attributes: dict[str, Attribute]
    imports: dict[str, int]
    opset: int
    narrow: bool

    @staticmethod
    def of(module: ModuleOp, function: FuncOp, opset: int | None) -> ModelHeader:
        """From the imported model's metadata and what the ops need.

        UnsupportedError when `opset` is too low, or differs from the imported one in
        a way that changes the meaning of a kept node.
        """
        model = module.attributes.get(MODEL)
        attributes = dict(model.data) if isinstance(model, DictionaryAttr) else {}
        imports = opset_imports(attributes.get("opset"))
        need, narrow = _needs(function)
        source = imports.get("")
        wanted = opset or max(source or DEFAULT_OPSET, need)
        newest: int = package("onnx").defs.onnx_opset_version()
        if wanted > newest:
            raise UnsupportedError(
                f"opset {wanted} is not known to the installed onnx package (up to {newest})"
            )
        if wanted < need:
            raise UnsupportedError(f"the model needs opset {need}, but {wanted} was asked for")
        if source is not None and wanted != source:
            _check_kept_nodes(function, source, wanted)
        imports[""] = wanted
        return ModelHeader(attributes, imports, wanted, narrow)

    def model(
        self, written: tuple[GraphProto, set[str]], keys: KeyTable, function: FuncOp
    ) -> ModelProto:
        """The model of a graph and the domains its nodes use, of `function`."""
        graph, domains = written
        helper = package("onnx.helper")
        for domain in domains:
            self.imports.setdefault(domain, 1)
        # Sorted, as MLIR text holds no order of attributes.
        opsets = [helper.make_opsetid(*entry) for entry in sorted(self.imports.items())]
        model: ModelProto = helper.make_model(graph, opset_imports=opsets)
        known = {name: version for name, version in self.imports.items() if name in ("",)}
        least = helper.find_min_ir_version_for([helper.make_opsetid(*e) for e in known.items()])
        given = self.attributes.get("ir_version")
        kept = given.value.data if isinstance(given, IntegerAttr) else 0
        model.ir_version = max(4, least, kept, 10 if self.narrow else 0)
        self._describe(model, {KEYS: keys.text(), QPARAMS: _interface(graph, function)})
        return model

    def _describe(self, model: ModelProto, own: dict[str, str]) -> None:
        for name in ("producer_name", "producer_version", "domain", "doc_string"):
            text = self.attributes.get(name)
            if isinstance(text, StringAttr):
                setattr(model, name, text.data)
        version = self.attributes.get("model_version")
        if isinstance(version, IntegerAttr):
            model.model_version = version.value.data
        metadata = self.attributes.get("metadata")
        texts: dict[str, str] = {}
        if isinstance(metadata, DictionaryAttr):
            texts = {k: v.data for k, v in metadata.data.items() if isinstance(v, StringAttr)}
        texts |= {key: text for key, text in own.items() if text}
        if texts:
            package("onnx.helper").set_model_props(model, dict(sorted(texts.items())))


def _interface(graph: GraphProto, function: FuncOp) -> str:
    """What the inputs and outputs mean that are codes."""
    last = function.body.block.last_op
    results = last.operands if isinstance(last, ReturnOp) else ()
    types: dict[str, UniformType] = {}
    for infos, values in ((graph.input, function.body.block.args), (graph.output, results)):
        for info, value in zip(infos, values, strict=True):
            element = quant_element(value.type)
            if element is not None:
                types[info.name] = element
    return interface_text(types)


def opset_imports(attribute: Attribute | None) -> dict[str, int]:
    """Versions by domain, from the module attribute of an imported model."""
    if not isinstance(attribute, DictionaryAttr):
        return {}
    return {
        "" if name == "ai.onnx" else name: version.value.data
        for name, version in attribute.data.items()
        if isinstance(version, IntegerAttr)
    }


def _needs(function: FuncOp) -> tuple[int, bool]:
    """The least opset for all ops and types, and whether 2- or 4-bit storage occurs."""
    opset, narrow = LEAST_OPSET, False
    for op in function.body.block.ops:
        opset = max(opset, _op_opset(op))
        for value in (*op.operands, *op.results):
            quantized = quant_element(value.type)
            if quantized is not None:
                opset = max(opset, required_opset(quantized.qparams))
                narrow = narrow or quantized.qparams.storage.width < 8
    return opset, narrow


def _op_opset(op: Operation) -> int:
    """The least opset with the form `op` is written in."""
    least = OP_OPSETS.get(op.name, 0)
    if not isinstance(op, NNOp):
        return least
    values = op.values
    if op.name == "nn.fully_connected" and len(op.operands) < 3:
        least = 11
    if op.name == "nn.softmax" and values["axis"] not in (-1, len(shape_of(op.results[0])) - 1):
        least = 13
    if len({shape_of(v) for v in op.operands}) > 1 and op.name in BROADCASTING:
        least = BROADCASTING[op.name]
    if values.get("ceil_mode"):
        least = max(least, 10)
    if isinstance(op, WindowOp) and any(d != 1 for d in values["dilations"]):
        least = max(least, 19 if isinstance(op, AveragePoolOp) else 10)
    if op.name in INTEGER_OPSETS and quant_element(op.operands[0].type) is not None:
        least = max(least, INTEGER_OPSETS[op.name])
    return least


def _check_kept_nodes(function: FuncOp, source: int, target: int) -> None:
    defs = package("onnx.defs")
    for op in function.body.block.ops:
        if not isinstance(op, NodeOp) or op.domain.data:
            continue
        name = op.op_type.data
        try:
            versions = [defs.get_schema(name, v, "").since_version for v in (source, target)]
        except defs.SchemaError:
            versions = []
        if len(set(versions)) != 1 or any(True for _ in graphs_in(op)):
            key = op.attributes.get("nn.key")
            raise UnsupportedError(
                f"'{name}' changed between opset {source} of the model and opset {target}",
                where=Where(node=key.data if isinstance(key, StringAttr) else name),
            )


# -- subgraphs --------------------------------------------------------------------------


def graphs_in(op: NodeOp) -> Iterator[str]:
    """The names of the attributes of a kept node that hold graphs."""
    for name, attribute in op.node_attributes.data.items():
        if isinstance(attribute, ProtoAttr) and attribute.kind.data in ("graph", "graphs"):
            yield name


def inner_names(function: FuncOp, store: BlobStore) -> Iterator[str]:
    """Every tensor name defined inside a subgraph: no outer tensor may take it."""
    for op in function.body.block.ops:
        if isinstance(op, NodeOp):
            for name in graphs_in(op):
                held = node_attribute(name, op.node_attributes.data[name], store)
                for graph in (*held.graphs, *((held.g,) if held.HasField("g") else ())):
                    yield from _defined(graph)


def _defined(graph: GraphProto) -> Iterator[str]:
    yield from (v.name for v in graph.input)
    yield from (t.name for t in graph.initializer)
    for node in graph.node:
        yield from node.output
        for attribute in node.attribute:
            for inner in (*attribute.graphs, *((attribute.g,) if attribute.HasField("g") else ())):
                yield from _defined(inner)


# -- inputs and outputs -----------------------------------------------------------------


def value_info(
    name: str, type: Attribute, code: int | None, dims: Attribute | None
) -> ValueInfoProto:
    """A typed graph input or output; `dims` are declared extents and symbolic names."""
    onnx = package("onnx")
    if code is None:
        return _opaque(name, type)
    extents: list[int | str | None] | None = None
    if isinstance(type, TensorType):
        shape = cast("TensorType[Attribute]", type).get_shape()
        extents = [None if n == DYNAMIC_INDEX else n for n in shape]
    named = _named(dims)
    if named is not None and (extents is None or len(named) == len(extents)):
        known = extents or [None] * len(named)
        extents = [n if k is None else k for k, n in zip(known, named, strict=True)]
    return onnx.helper.make_tensor_value_info(name, code, extents)


def _named(dims: Attribute | None) -> list[int | str | None] | None:
    entries: tuple[Any, ...] = cast("ArrayAttr[Any]", dims).data if dims is not None else ()
    if not entries:
        return None
    result: list[int | str | None] = []
    for entry in entries:
        if isinstance(entry, StringAttr):
            result.append(entry.data)
        else:
            value: int = entry.value.data
            result.append(value if value >= 0 else None)
    return result


def _opaque(name: str, type: Attribute) -> ValueInfoProto:
    onnx = package("onnx")
    if not isinstance(type, OpaqueType):
        raise UnsupportedError(f"no ONNX type for {type} of '{name}'")
    proto = onnx.TypeProto()
    package("google.protobuf.text_format").Parse(type.data, proto)
    return onnx.helper.make_value_info(name, proto)
