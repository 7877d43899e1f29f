"""Whether a runtime runs a node that no op of ours can express.

Runtimes take forms that our ops refuse: a pool whose window is larger than its input gives an
empty tensor, a reduction of a scalar over axis 0 the scalar.  Such a node is kept as it is.
A node that is wrong is told apart by running it alone, on its constants and on zeros.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from math import prod
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import IntegerType, Signedness, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from qdialect.errors import InputError
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import UniformType, element_type
from qdialect.packages import package
from qdialect.plugins.onnx.dialect import DATA_TYPES
from qdialect.plugins.onnx.read.compute import Rule
from qdialect.plugins.onnx.read.node import Node
from qdialect.plugins.onnx.read.types import extents, value_type

if TYPE_CHECKING:
    from onnx import ModelProto

    from qdialect.plugins.onnx.read.importer import Importer

_EXTENTS = (1, 8, 0)
"""What unknown extents are tried as."""
_MOST = 1 << 24
"""Elements of an operand that are made for this."""


def by_rule(imp: Importer, rule: Rule, node: Node) -> list[SSAValue] | None:
    """What a rule makes of a node; None for one that is right, but that the rule refuses."""
    try:
        return rule(imp, node)
    except (VerifyException, InputError) as error:
        if isinstance(error, InputError) and error.code not in ("invalid-node", "bad-qparams"):
            raise
        if not runs(imp, node):
            raise
        imp.take_back()
        return None


def runs(imp: Importer, node: Node) -> bool:
    """Whether ONNX Runtime (the reference evaluator of ONNX, where that is not installed) runs
    the node, whatever unknown extents are; False where an operand's type is not known."""
    return any(_runs(_alone(imp, node, unknown)) for unknown in _EXTENTS)


def _runs(model: ModelProto | None) -> bool:
    if model is None:
        return False
    helper, feeds = package("onnx.helper"), dict[str, Any]()
    for info in model.graph.input:
        kind = info.type.tensor_type
        feeds[info.name] = _zeros(kind, helper.tensor_dtype_to_np_dtype(kind.elem_type))
    return answers(model, feeds) is not None


def answers(model: ModelProto, feeds: Mapping[str, Any]) -> list[Any] | None:
    """What ONNX Runtime (or the reference evaluator) makes of a model; None where it fails."""
    from qdialect.plugins.onnx.write.engine import OrtEngine

    try:
        if find_spec("onnxruntime") is not None:
            return list(OrtEngine(model, optimize=False).run(feeds).values())
        return list(package("onnx.reference").ReferenceEvaluator(model).run(None, feeds))
    except Exception:  # of whatever kind a runtime raises
        return None


def _zeros(kind: Any, dtype: Any) -> Any:
    import numpy as np

    return np.zeros([dim.dim_value for dim in kind.shape.dim], dtype)


def _code(element: Attribute) -> int | None:
    """The ONNX type of a tensor's elements, stored integers if they are quantized."""
    if not isinstance(element, UniformType):
        return DATA_TYPES.get(element)
    storage = element.qparams.storage
    if storage.is_float:
        return None
    return DATA_TYPES.get(
        IntegerType(storage.width, Signedness.SIGNLESS if storage.signed else Signedness.UNSIGNED)
    )


def types_alone(imp: Importer, node: Node) -> dict[str, Attribute]:
    """The types of a node's outputs that inference finds for it alone: with what constants the
    model computes, and behind nodes that it does not know."""
    inference, model = package("onnx.shape_inference"), _alone(imp, node, None)
    try:
        found = model and inference.infer_shapes(model)
    except (inference.InferenceError, RuntimeError, ValueError):
        found = None
    return {v.name: value_type(v.type) for v in found.graph.output} if found else {}


def _alone(imp: Importer, node: Node, unknown: int | None) -> ModelProto | None:
    """The node as a model, unknown extents being `unknown`; None where that is not known."""
    onnx, loaded = package("onnx"), imp.loaded
    if any(attribute.ref_attr_name for attribute in node.proto.attribute):
        return None
    graph = onnx.GraphProto(name="node", node=[node.proto])
    for name in dict.fromkeys(name for name in node.inputs if name):
        tensor = imp.statics.get(name)
        if tensor is not None and tensor.data_location != onnx.TensorProto.EXTERNAL:
            given = graph.initializer.add()
            given.CopyFrom(tensor)
            given.name = name
            continue
        if tensor is not None:
            code, dims = tensor.data_type, list(tensor.dims)
        else:
            kind = imp.type_of(name)
            if not isinstance(kind, TensorType):
                return None
            ranked = cast("TensorType[Attribute]", kind)
            code = _code(element_type(ranked))
            dims = [unknown if n == DYNAMIC else n for n in extents(ranked)]
        if code is None or (unknown is not None and prod(n or 1 for n in dims) > _MOST):
            return None
        graph.input.append(onnx.helper.make_tensor_value_info(name, code, dims))
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.outputs if name)
    model: ModelProto = onnx.ModelProto(ir_version=loaded.model.ir_version, graph=graph)
    model.opset_import.extend(loaded.model.opset_import)
    return model
