"""Running models: ONNX Runtime as an engine, and single kept nodes for the interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import AnyFloat, DictionaryAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.dialects.onnx import DATA_TYPES, MODEL, NodeOp, is_tensor, package
from qdialect.errors import InputError, QError, Where
from qdialect.formats.onnx.read.hidden_ops import newest_version
from qdialect.formats.onnx.read.types import extents, value_type
from qdialect.formats.onnx.write.external_data import loadable
from qdialect.formats.onnx.write.graph import node_attribute
from qdialect.formats.onnx.write.header import DEFAULT_OPSET, opset_imports, value_info
from qdialect.formats.onnx.write.narrow_values import NARROW, run_narrow
from qdialect.ops.base import ranked
from qdialect.ops.shapes import Shape, ShapeError
from qdialect.quant import element_type
from qdialect.weights import BlobStore

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import ModelProto

    Arrays = Mapping[str, NDArray[Any]]


class OrtEngine:
    """A model in ONNX Runtime on the CPU.

    With `optimize` the runtime rewrites the graph as it likes (all optimizations);
    without, it runs the nodes as they are written (none).
    """

    def __init__(
        self,
        model: ModelProto | bytes | str | PathLike[str],
        optimize: bool,
        threads: int = 1,
        saved: PathLike[str] | None = None,
        profile: PathLike[str] | None = None,
    ) -> None:
        """The graph that the runtime made is written to `saved`, its weights beside it; with
        `profile` it times every node, and that is how the name of the file begins that
        `session.end_profiling` writes.

        InputError (`runtime-refuses`) when the runtime does not load the model.
        """
        ort = package("onnxruntime")
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # What goes wrong is in the exceptions; standard error is not the runtime's.
        options.log_severity_level = 4
        levels = ort.GraphOptimizationLevel
        options.graph_optimization_level = (
            levels.ORT_ENABLE_ALL if optimize else levels.ORT_DISABLE_ALL
        )
        if profile is not None:
            options.enable_profiling = True
            options.profile_file_prefix = fspath(profile)
        if saved is not None:
            options.optimized_model_filepath = fspath(saved)
            # Else a model of more than 2 GB could not be written.
            for key, value in (("file_name", "weights"), ("min_size_in_bytes", "1024")):
                name = f"session.optimized_model_external_initializers_{key}"
                options.add_session_config_entry(name, value)
        file = fspath(model) if isinstance(model, str | PathLike) else None
        source: Any
        if file is not None or isinstance(model, bytes):
            source = nullcontext(file or model)
        else:
            source = loadable(cast("ModelProto", model))
        try:
            with source as loaded:
                self.session: Any = ort.InferenceSession(
                    loaded, options, providers=["CPUExecutionProvider"]
                )
        except Exception as error:
            raise InputError(
                f"ONNX Runtime does not load the model: {_reason(error)}",
                where=Where(file=file),
                code="runtime-refuses",
            ) from None
        self.inputs: list[str] = [entry.name for entry in self.session.get_inputs()]
        self.outputs: list[str] = [entry.name for entry in self.session.get_outputs()]
        self._gives_narrow = any(entry.type in NARROW for entry in self.session.get_outputs())

    def run(self, inputs: Arrays) -> dict[str, NDArray[Any]]:
        """All outputs by name; InputError (`runtime-fails`) when the runtime fails.

        Values of types that numpy lacks are arrays of `ml_dtypes`, taken and given.
        """
        import numpy as np

        try:
            feeds = {name: np.asarray(array) for name, array in inputs.items()}
            if self._gives_narrow or any(a.dtype.isbuiltin == 2 for a in feeds.values()):
                results = run_narrow(self.session, self.outputs, feeds)
            else:
                results = self.session.run(self.outputs, feeds)
        except Exception as error:
            raise InputError(
                f"ONNX Runtime cannot run the model: {_reason(error)}", code="runtime-fails"
            ) from None
        return dict(zip(self.outputs, results, strict=True))


def loads(model: ModelProto | bytes | str | PathLike[str]) -> bool:
    """Whether the runtime loads a model as it is written."""
    try:
        OrtEngine(model, optimize=False)
    except QError:
        return False
    return True


def runs(file: str | PathLike[str], inputs: Arrays | None = None) -> bool:
    """Whether the runtime runs a model as it is written: on `inputs`, or on ones of every kind
    where nobody gave any, unknown extents being 1."""
    import numpy as np

    try:
        engine = OrtEngine(file, optimize=False)
        if inputs is None:
            inputs = {
                entry.name: np.ones(
                    [n if isinstance(n, int) else 1 for n in entry.shape],
                    _numpy_name(entry.type.removeprefix("tensor(").removesuffix(")")),
                )
                for entry in engine.session.get_inputs()
            }
        engine.run(inputs)
    except (QError, TypeError):  # a type that numpy does not have
        return False
    return True


def _numpy_name(kind: str) -> str:
    """What numpy calls an element type of the runtime."""
    return {"float": "float32", "double": "float64", "string": "object"}.get(kind, kind)


def _reason(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def evaluate_node(
    op: NodeOp, operands: Sequence[NDArray[Any]], store: BlobStore
) -> list[NDArray[Any]]:
    """The results of one kept node on arrays of its operands.

    Runs it as a model of one node: in ONNX Runtime, or in the reference evaluator of
    the `onnx` package where the runtime has no kernel.  `store` holds its large
    attributes.  QError (`cannot-evaluate`) when neither runs it.
    """
    operands = [_as_onnx(a, v) for a, v in zip(operands, op.operands, strict=True)]
    return [
        _as_laid_out(a, v) for a, v in zip(_run_node(op, operands, store), op.results, strict=True)
    ]


def _as_onnx(array: NDArray[Any], value: SSAValue) -> NDArray[Any]:
    """An operand as the interpreter holds it (`qdialect.reference.values`), as numpy
    has the ONNX type: bf16 is held in f32, narrow types one to a byte."""
    dtype = _dtype(value)
    if dtype is None or not hasattr(array, "dtype") or array.dtype == dtype:
        return array
    return array.view(dtype) if _is_bits(value) else array.astype(dtype)


def _as_laid_out(array: NDArray[Any], value: SSAValue) -> NDArray[Any]:
    """The inverse of `_as_onnx`."""
    import numpy as np

    dtype = _dtype(value)
    if dtype is None or dtype.isbuiltin == 1 or array.dtype != dtype:
        return array.astype(object) if dtype == np.dtype(object) else array
    if _is_bits(value):
        return array.view(np.uint8)
    name = dtype.name
    return array.astype(np.float32 if name[0] == "b" else np.uint8 if name[0] == "u" else np.int8)


def _dtype(value: SSAValue) -> Any:
    code = DATA_TYPES.get(element_type(value.type)) if is_tensor(value.type) else None
    return None if code is None else package("onnx.helper").tensor_dtype_to_np_dtype(code)


def _is_bits(value: SSAValue) -> bool:
    """Whether the interpreter holds the bits of a small float."""
    element = element_type(value.type)
    return isinstance(element, AnyFloat) and element.bitwidth <= 8


_NOT_BY_THE_RUNTIME = frozenset({"DFT", "MaxUnpool", "STFT"})
"""Ops on which ONNX Runtime misses the node tests of ONNX that the reference passes."""


def _run_node(op: NodeOp, operands: Sequence[NDArray[Any]], store: BlobStore) -> list[NDArray[Any]]:
    model = _one_node(op, operands, store)
    feeds = {entry.name: array for entry, array in zip(model.graph.input, operands, strict=True)}
    reason = "ONNX Runtime computes something else"
    if op.domain.data or op.op_type.data not in _NOT_BY_THE_RUNTIME:
        try:
            return list(OrtEngine(model, optimize=False).run(feeds).values())
        except InputError as refusal:
            reason = refusal.message
    try:
        return evaluate_by_reference(op, operands, store)
    except QError as error:
        error.message = f"'{op.op_type.data}' cannot be evaluated: {reason}; {error.message}"
        raise


def evaluate_by_reference(
    op: NodeOp, operands: Sequence[NDArray[Any]], store: BlobStore
) -> list[NDArray[Any]]:
    """The results of one kept node in the reference evaluator of ONNX, which is faster than
    the runtime on a few elements; QError (`cannot-evaluate`)."""
    import numpy as np

    model = _one_node(op, operands, store)
    feeds = {entry.name: array for entry, array in zip(model.graph.input, operands, strict=True)}
    try:
        with np.errstate(all="ignore"):
            return list(package("onnx.reference").ReferenceEvaluator(model).run(None, feeds))
    except Exception as error:
        raise QError(_reason(error), code="cannot-evaluate") from None


def _one_node(
    op: NodeOp, operands: Sequence[NDArray[Any] | Attribute], store: BlobStore
) -> ModelProto:
    """The node as a model, on operands like these arrays or of these types."""
    helper = package("onnx.helper")
    captured = list(op.captured())
    plain = [f"input{i}" for i in range(len(operands) - len(captured))]
    remaining = iter(plain)
    inputs = ["" if v is None else next(remaining) for v in op.node_inputs()]
    outputs = ["" if v is None else f"output{i}" for i, v in enumerate(op.node_results())]
    node = helper.make_node(op.op_type.data, inputs, outputs, domain=op.domain.data)
    for name, attribute in op.node_attributes.data.items():
        node.attribute.append(node_attribute(name, attribute, store))
    typed = [
        value_info(name, given, DATA_TYPES.get(element_type(given)), None)
        if isinstance(given, Attribute)
        else helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(given.dtype), given.shape
        )
        if hasattr(given, "dtype")
        else value_info(name, value.type, None, None)  # a sequence
        for name, given, value in zip((*plain, *captured), operands, op.operands, strict=True)
    ]
    results = [_result(f"output{i}", v) for i, v in enumerate(op.node_results()) if v is not None]
    graph = helper.make_graph([node], "node", typed, results)
    imports = {"": DEFAULT_OPSET, **_module_opsets(op)}
    imports.setdefault(op.domain.data, newest_version(op.domain.data))
    opsets = [helper.make_opsetid(name, version) for name, version in imports.items()]
    model: ModelProto = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = min(model.ir_version, 10)
    return model


def _result(name: str, value: SSAValue) -> Any:
    code = DATA_TYPES.get(element_type(value.type)) if is_tensor(value.type) else None
    if code is None:
        return package("onnx").ValueInfoProto(name=name)
    return value_info(name, element_type(value.type), code, None)


def node_shapes(
    op: NodeOp,
    shapes: Sequence[Shape],
    known: Sequence[NDArray[Any] | None],
    store: BlobStore,
) -> list[Shape | None]:
    """The shapes of the results of one kept node on operands of these shapes, of which elements
    are `known` or None; None for a result of which inference does not tell the rank.

    ShapeError where it refuses the operands."""
    values = zip(op.operands, shapes, strict=True)
    kinds = [ranked(element_type(value.type), shape) for value, shape in values]
    model = _one_node(op, kinds, store)
    for entry, array in zip(model.graph.input, known, strict=True):
        if array is not None:
            tensor = package("onnx.numpy_helper").from_array(array, entry.name)
            model.graph.initializer.append(tensor)
    inference = package("onnx.shape_inference")
    try:
        inferred = inference.infer_shapes(model, strict_mode=True)
    except (inference.InferenceError, RuntimeError) as error:
        raise ShapeError(_reason(error)) from None
    if any(d.dim_value < 0 for v in inferred.graph.output for d in v.type.tensor_type.shape.dim):
        raise ShapeError("gives a negative extent")
    found = [value_type(entry.type) for entry in inferred.graph.output]
    return [extents(cast("Any", t)) if isinstance(t, TensorType) else None for t in found]


def _module_opsets(op: Operation) -> dict[str, int]:
    parent: Operation | None = op
    while parent is not None:
        model = parent.attributes.get(MODEL)
        if isinstance(model, DictionaryAttr):
            return opset_imports(model.data.get("opset"))
        parent = parent.parent_op()
    return {}


def first_part(model: ModelProto, outputs: Sequence[str]) -> ModelProto:
    """`model` as far as it is needed for some of its graph outputs: the nodes up to the
    last that computes one, and the initializers they read.  The weights are shared with
    `model` where Python can."""
    names = set(outputs)
    nodes = list(model.graph.node)
    last = max((i for i, node in enumerate(nodes) if names & set(node.output)), default=-1)
    if last == len(nodes) - 1 and len(names) == len(model.graph.output):
        return model
    kept = nodes[: last + 1]
    read = {name for node in kept for name in _names_read(node)}
    helper = package("onnx.helper")
    graph = helper.make_graph(
        kept,
        model.graph.name,
        list(model.graph.input),
        [entry for entry in model.graph.output if entry.name in names],
        [tensor for tensor in model.graph.initializer if tensor.name in read | names],
    )
    part: ModelProto = helper.make_model(graph, opset_imports=list(model.opset_import))
    part.ir_version = model.ir_version
    return part


def _names_read(node: Any) -> set[str]:
    """What a node reads, bodies of its subgraphs included."""
    names = set(node.input)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            names.update(entry.name for entry in graph.output)
            names.update(name for inner in graph.node for name in _names_read(inner))
    return names
