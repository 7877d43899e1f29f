"""What surrounds the graph: opset and IR versions, metadata, typed inputs and outputs."""

from __future__ import annotations

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
from xdsl.ir import Attribute

from qdialect.errors import UnsupportedError, Where
from qdialect.ir.ops.key_metadata import IDENTITY, KEYS, KeyTable, identity_text
from qdialect.ir.ops.keys import MODEL as IDENTITY_KEY
from qdialect.ir.quant import UniformType, quant_element
from qdialect.ir.quant.interface_metadata import QPARAMS, interface_text
from qdialect.ir.weights import BlobStore
from qdialect.packages import package
from qdialect.plugins.onnx.dialect import MODEL, OpaqueType
from qdialect.plugins.onnx.read.hidden_ops import newest_version
from qdialect.plugins.onnx.write.opsets import changed_node, opset_for

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, ValueInfoProto

#: the opset of a module that was not imported from ONNX
DEFAULT_OPSET = 17


@dataclass
class ModelHeader:
    """Versions and metadata of the model to write."""

    attributes: dict[str, Attribute]
    imports: dict[str, int]
    opset: int
    narrow: bool

    @staticmethod
    def of(module: ModuleOp, function: FuncOp, store: BlobStore, opset: int | None) -> ModelHeader:
        """From the imported model's metadata and what the ops need.

        Where a later opset would change the meaning of a kept node, ops are written in the
        oldest form they have. UnsupportedError when that does not help, or `opset` is too low
        or changes a kept node.
        """
        model = module.attributes.get(MODEL)
        attributes = dict(model.data) if isinstance(model, DictionaryAttr) else {}
        imports = opset_imports(attributes.get("opset"))
        need, narrow = opset_for(function), _holds_narrow_codes(function)
        source = imports.get("")
        version = opset or max(source or DEFAULT_OPSET, need)
        if opset is None and source is not None and changed_node(function, store, source, version):
            need = opset_for(function, oldest=True)
            version = max(source, need)
        newest: int = package("onnx").defs.onnx_opset_version()
        if version > newest:
            raise UnsupportedError(
                f"opset {version} is not known to the installed onnx package (up to {newest})"
            )
        if version < need:
            raise UnsupportedError(f"the model needs opset {need}, but {version} was asked for")
        changed = None if source is None else changed_node(function, store, source, version)
        if changed is not None:
            key = changed.attributes.get("nn.key")
            name = changed.op_type.data
            raise UnsupportedError(
                f"'{name}' changed between opset {source} of the model and opset {version}",
                where=Where(node=key.data if isinstance(key, StringAttr) else name),
            )
        imports[""] = version
        return ModelHeader(attributes, imports, version, narrow)

    def model(
        self, written: tuple[GraphProto, set[str]], keys: KeyTable, function: FuncOp
    ) -> ModelProto:
        """The model of a graph and the domains its nodes use, of `function`."""
        graph, domains = written
        helper = package("onnx.helper")
        for domain in domains:
            self.imports.setdefault(domain, newest_version(domain))
        # Sorted, as MLIR text holds no order of attributes.
        opsets = [helper.make_opsetid(*entry) for entry in sorted(self.imports.items())]
        model: ModelProto = helper.make_model(graph, opset_imports=opsets)
        known = {name: version for name, version in self.imports.items() if name in ("",)}
        least = helper.find_min_ir_version_for([helper.make_opsetid(*e) for e in known.items()])
        given = self.attributes.get("ir_version")
        kept = given.value.data if isinstance(given, IntegerAttr) else 0
        model.ir_version = max(4, least, kept, 10 if self.narrow else 0)
        module = function.parent_op()
        identity = None if module is None else module.attributes.get(IDENTITY_KEY)
        own = {KEYS: keys.text(), QPARAMS: _interface(graph, function)}
        self._describe(model, {**own, IDENTITY: identity_text(identity)})
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


def _holds_narrow_codes(function: FuncOp) -> bool:
    """Whether 2- or 4-bit storage occurs."""
    values = (v for op in function.body.block.ops for v in (*op.operands, *op.results))
    elements = (quant_element(value.type) for value in values)
    return any(e is not None and e.qparams.storage.width < 8 for e in elements)


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
