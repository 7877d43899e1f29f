"""What import functions use to build the ops of a node: values, types, constants, new ops.

Every tensor has its name in the file.  Constants become ops when something first reads them as a
value; what only serves as a shape, an axis list or qparams never does.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import (
    FileLineColLoc,
    IntAttr,
    IntegerType,
    NameLoc,
    Signedness,
    StringAttr,
    TensorType,
    UnrealizedConversionCastOp,
)
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.ir.context import QContext
from qdialect.ir.dialects.attributes import string
from qdialect.ir.ops import KEY
from qdialect.ir.ops.base import ranked
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import SCastOp, UniformType, element_type, storage_type, with_element
from qdialect.ir.weights import DTYPES
from qdialect.packages import package
from qdialect.plugins.common.ops_of_node import OpsOfNode
from qdialect.plugins.onnx.dialect import NodeOp
from qdialect.plugins.onnx.read.attributes import ir_attribute
from qdialect.plugins.onnx.read.graph_tensors import GraphTensors
from qdialect.plugins.onnx.read.load import LoadedModel, read_interface, read_keys
from qdialect.plugins.onnx.read.node import Node, is_stateful
from qdialect.plugins.onnx.read.subgraphs import captured_names
from qdialect.plugins.onnx.read.symbols import Symbols
from qdialect.plugins.onnx.read.tensors import ELEMENT_NAMES, stored_float
from qdialect.plugins.onnx.read.types import extents, value_type

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto

_START = IntAttr(0)


class Importer(GraphTensors, OpsOfNode):
    """The state of one import; import functions use its methods."""

    def __init__(self, ctx: QContext, loaded: LoadedModel) -> None:
        GraphTensors.__init__(self, loaded)
        OpsOfNode.__init__(self)
        self.ctx = ctx
        #: quantized types by the names of their parameters
        self.quantized_types: dict[tuple[Any, ...], UniformType | None] = {}
        #: ops that were also built in another form: their readers first
        self.replaced: list[Operation] = []
        self.symbols = Symbols(self)
        self._constants: dict[tuple[str, Attribute], SSAValue] = {}
        self._node_index = 0
        self.keys = read_keys(loaded)
        #: quantized types that the metadata says graph inputs and outputs have
        self.interface_types = read_interface(loaded)
        self._file = StringAttr(loaded.file or "<model>")

    @cached_property
    def readers(self) -> dict[str, list[tuple[NodeProto, int]]]:
        """The nodes that read each tensor of the graph, and as which input."""
        found: dict[str, list[tuple[NodeProto, int]]] = {}
        for proto in self.loaded.model.graph.node:
            for position, name in enumerate(proto.input):
                found.setdefault(name, []).append((proto, position))
        return found

    def value(self, name: str) -> SSAValue:
        """The SSA value of a tensor: floats, other numbers, or a quantized type."""
        if name not in self.values:
            tensor = self.statics[name]
            element = self.loaded.tensors.element(tensor)
            if ELEMENT_NAMES[element] not in DTYPES:
                self.values[name] = self._constant_node(name, tensor, element)
            else:
                self.values[name] = self.constant(name, element)
        return self.values[name]

    def constant(self, name: str, element: Attribute) -> SSAValue:
        """A static tensor as a constant under an element type (see `TensorReader`)."""
        key = (name, element)
        if key not in self._constants:
            op = self.loaded.tensors.constant(self.statics[name], element, self.ctx.blobs)
            op.attributes[KEY] = string(name)
            self.keys.name(op)
            op.location = self.location(name)
            self.block.add_op(op)
            self._constants[key] = op.results[0]
        return self._constants[key]

    def onnx_value(self, name: str) -> SSAValue:
        """The tensor as ONNX types it: a quantized value as its stored integers."""
        value = self.value(name)
        element = element_type(value.type)
        if not isinstance(element, UniformType):
            return value
        if element.qparams.storage.is_float:
            return self._recast(value, stored_float(element))
        stored = self.emit(SCastOp(value, with_element(value.type, storage_type(element.qparams))))
        if element.qparams.storage.signed:
            return stored.results[0]
        unsigned = IntegerType(element.qparams.storage.width, Signedness.UNSIGNED)
        return self._recast(stored.results[0], unsigned)

    def _recast(self, value: SSAValue, element: Attribute) -> SSAValue:
        """The same bits under another element type."""
        target = with_element(value.type, element)
        return self.emit(UnrealizedConversionCastOp.get([value], [target])).results[0]

    def quantized(self, value: SSAValue, element: UniformType) -> SSAValue:
        """Stored integers, or a quantized value of the same storage, read under `element`."""
        if element.qparams.storage.is_float:
            if isinstance(element_type(value.type), UniformType):
                value = self._recast(value, stored_float(element))
            return self._recast(value, element)
        signless = with_element(value.type, storage_type(element.qparams))
        if isinstance(element_type(value.type), UniformType):
            value = self.emit(SCastOp(value, signless)).results[0]
        elif value.type != signless:
            value = self._recast(value, element_type(signless))
        return self.emit(SCastOp(value, with_element(signless, element))).results[0]

    def location(self, key: str) -> NameLoc:
        """The place of what is built now: its key, and the index of its node."""
        place = FileLineColLoc(self._file, IntAttr(self._node_index), _START)
        return NameLoc(string(key), place)

    def begin(self, node: Node) -> None:
        """Ops from here on are those of `node`."""
        self.emitted.clear()
        self._node_index = node.index

    def build(
        self, kind: type[Any], *operands: SSAValue, output: str, **properties: Any
    ) -> SSAValue:
        """Append an `nn` op whose result is tensor `output`.

        The shape is the one the op infers, with extents that only ONNX shape
        inference knows filled in.
        """
        return self.shaped(kind(*operands, **properties), output)

    def shaped(self, op: Operation, output: str) -> SSAValue:
        """Append an op whose result is tensor `output`, as `build` does."""
        known = value_type(self.loaded.types.get(output))
        result = op.results[0]
        own = cast("TensorType[Attribute]", result.type)
        if isinstance(known, TensorType) and known.get_num_dims() == own.get_num_dims():
            theirs = extents(cast("TensorType[Attribute]", known))
            shape = [b if a == DYNAMIC else a for a, b in zip(extents(own), theirs, strict=True)]
            result._type = ranked(own.element_type, shape)  # pyright: ignore[reportPrivateUsage]
        return self.emit(op).results[0]

    def keep(self, node: Node) -> list[SSAValue]:
        """The node as it is."""
        attributes = {a.name: ir_attribute(a, self.ctx.blobs) for a in node.proto.attribute}
        inputs = [self.onnx_value(name) if name else None for name in node.inputs]
        captures = {name: self.onnx_value(name) for name in captured_names(node.proto)}
        types = [value_type(self.loaded.types.get(n)) if n else None for n in node.outputs]
        op = NodeOp(
            node.op_type,
            inputs,
            types,
            attributes,
            domain=node.domain,
            captures=captures,
            stateful=is_stateful(node.proto),
        )
        return list(self.emit(op).results)

    def _constant_node(self, name: str, tensor: TensorProto, element: Attribute) -> SSAValue:
        """A constant of a type the weight store does not hold, as a `Constant` node."""
        proto = package("onnx.helper").make_node("Constant", [], [name], value=tensor)
        attributes = {a.name: ir_attribute(a, self.ctx.blobs) for a in proto.attribute}
        op = NodeOp("Constant", [], [TensorType(element, tuple(tensor.dims))], attributes)
        op.attributes[KEY] = string(name)
        op.location = self.location(name)
        self.block.add_op(op)
        return op.results[0]
