"""Running models: ONNX Runtime as an engine, and single kept nodes for the interpreter."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from math import inf, prod
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import AnyFloat, DictionaryAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.engines.child import NUMBERS, Child, Refusal
from qdialect.engines.model_child import NARROW, OrtModel
from qdialect.errors import InputError, QError, Where
from qdialect.ir.ops.base import ranked
from qdialect.ir.ops.shapes import Shape, ShapeError
from qdialect.ir.quant import element_type
from qdialect.ir.quant.elements import is_tensor
from qdialect.ir.weights import BlobStore
from qdialect.packages import package
from qdialect.plugins.onnx.dialect import DATA_TYPES, MODEL, NodeOp
from qdialect.plugins.onnx.read.hidden_ops import newest_version
from qdialect.plugins.onnx.read.types import extents, value_type
from qdialect.plugins.onnx.write.external_data import loadable
from qdialect.plugins.onnx.write.graph import node_attribute
from qdialect.plugins.onnx.write.header import DEFAULT_OPSET, opset_imports, value_info
from qdialect.plugins.onnx.write.narrow_values import as_array, onnx_code, packed

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import ModelProto

    Arrays = Mapping[str, NDArray[Any]]


_CHILDREN: dict[int, Child] = {}
"""The process of all sessions of this one, by the number of this one, which may be forked."""


def _child() -> Child:
    if os.getpid() not in _CHILDREN:
        _CHILDREN[os.getpid()] = Child("ONNX Runtime", ("try --engine numpy",))
    return _CHILDREN[os.getpid()]


class OrtEngine:
    """A model in ONNX Runtime on the CPU, in a process that all engines of this one share.

    With `optimize` the runtime rewrites the graph as it likes (all optimizations);
    without, it runs the nodes as they are written (none).

    Where the runtime ends its process, takes too long or too much memory, that is an InputError
    (`engine-failed`), and other engines are loaded again when they run next.
    """

    def __init__(
        self,
        model: ModelProto | bytes | str | PathLike[str],
        optimize: bool,
        threads: int = 1,
        saved: PathLike[str] | None = None,
        profile: PathLike[str] | None = None,
        seconds: float = inf,
    ) -> None:
        """The graph that the runtime made is written to `saved`, its weights beside it; with
        `profile` it times every node (`executions`), and that is how the name of the file begins.
        A run may take `seconds`.

        InputError (`runtime-refuses`) when the runtime does not load the model.
        """
        if find_spec("onnxruntime") is None:
            package("onnxruntime")
        self._file = fspath(model) if isinstance(model, str | PathLike) else None
        self._id, self._given = next(NUMBERS), object()
        self._seconds, self._failed = seconds, cast("InputError | None", None)
        files = ExitStack()
        self._source: str | bytes
        if self._file is not None:
            self._source = str(Path(self._file).absolute())
        elif isinstance(model, bytes):
            self._source = model
        else:
            self._source = files.enter_context(loadable(cast("ModelProto", model)))
        weakref.finalize(self, _forget, self._id, files)
        self._options = {"profile": None if profile is None else fspath(profile)}
        self._settings: dict[str, Any]
        self._settings = {"engine": "onnxruntime", "optimize": optimize, "threads": threads}
        try:
            found = self._load(saved=None if saved is None else fspath(saved))
        except Refusal as error:
            raise InputError(
                f"ONNX Runtime does not load the model: {error.reason}",
                where=Where(file=self._file),
                code="runtime-refuses",
            ) from None
        #: what the runtime says of inputs: `name`, `type`, and `shape`, unknown extents being 1
        self.ports: list[Mapping[str, Any]] = found["inputs"]
        self.inputs: list[str] = [port["name"] for port in self.ports]
        self.outputs: list[str] = [port["name"] for port in found["outputs"]]
        self._gives_narrow = any(port["type"] in NARROW for port in found["outputs"])

    def run(self, inputs: Arrays) -> dict[str, NDArray[Any]]:
        """All outputs by name; InputError (`runtime-fails`) when the runtime fails.

        Values of types that numpy lacks are arrays of `ml_dtypes`, taken and given.
        """
        given, arrays = self._taken(inputs)
        results = self._ask("running", arrays, do="run", given=given)[1]
        if given["codes"] is not None:
            results = [as_array(*result) for result in results]
        return dict(zip(self.outputs, results, strict=True))

    def nanoseconds(self, inputs: Arrays, runs: int = 1, warm: int = 0, cold: int = 0) -> list[int]:
        """What so many runs take after some that do not count (`warm`): processor time of a
        thread, or of the clock where there are several, while outputs stay in the runtime.

        So many bytes of other memory (`cold`) are read before each. `inputs` are sent once if
        they are the same object. InputError as for `run`."""
        given, arrays = {}, list[Any]()
        if self._given is not inputs or not _child().has(self._id):
            given, arrays = self._taken(inputs)
        self._given = inputs
        ask = {"runs": runs, "warm": warm, "cold": cold, "nanoseconds": 0, "given": given}
        threads = self._settings["threads"]
        return self._ask("timing", arrays, do="time", threads=threads, **ask)[0]["nanoseconds"]

    def end_profiling(self) -> Path:
        """The file of times of nodes."""
        return Path(self._ask("timing", (), do="profile")[0]["file"])

    def in_this_process(self) -> OrtModel:
        """A session without limits, for a model that has run."""
        threads, optimize = self._settings["threads"], self._settings["optimize"]
        return OrtModel("onnxruntime", self._source, threads, optimize)

    def _taken(self, inputs: Arrays) -> tuple[dict[str, Any], list[NDArray[Any]]]:
        """How inputs are given to the runtime, and their arrays as it takes them."""
        import numpy as np

        try:
            arrays = [np.asarray(array) for array in inputs.values()]
        except ValueError as error:
            raise _not_run(str(error)) from None
        codes = None
        if self._gives_narrow or any(array.dtype.isbuiltin == 2 for array in arrays):
            codes = list(map(onnx_code, arrays))
            arrays = list(map(packed, arrays))
        return {"names": list(inputs), "codes": codes}, arrays

    def _load(self, **more: Any) -> dict[str, Any]:
        header = {"do": "load", **self._settings, "options": {**self._options, **more}}
        return self._asked("loading", header, [self._source])[0]

    def _ask(self, doing: str, arrays: Sequence[Any], **header: Any) -> tuple[Any, list[Any]]:
        if self._failed is not None:
            raise self._failed
        child = _child()
        try:
            with child.lock:
                if not child.has(self._id):
                    self._load()
                return self._asked(doing, {**header, "seconds": self._seconds}, arrays)
        except Refusal as error:
            raise _not_run(error.reason) from None

    def _asked(
        self, doing: str, header: Mapping[str, Any], arrays: Sequence[Any]
    ) -> tuple[Any, list[Any]]:
        name = "the model" if self._file is None else f"'{Path(self._file).name}'"
        try:
            return _child().ask({**header, "id": self._id}, arrays, doing=f"{doing} {name}")
        except Refusal:
            raise
        except InputError as error:
            if self._file is not None:
                error.where = Where(file=self._file)
            self._failed = error
            raise


def _forget(number: int, files: ExitStack) -> None:
    if os.getpid() in _CHILDREN:
        _child().forgotten.append(number)
    files.close()


def _not_run(reason: str) -> InputError:
    return InputError(f"ONNX Runtime cannot run the model: {reason}", code="runtime-fails")


def loads(model: ModelProto | bytes | str | PathLike[str]) -> bool:
    """Whether the runtime loads a model as it is written."""
    try:
        OrtEngine(model, optimize=False)
    except QError:
        return False
    return True


_MOST = 1 << 28
"""Elements of an input that are made to try a model."""


def runs(file: str | PathLike[str], inputs: Arrays | None = None) -> bool:
    """Whether the runtime runs a model as it is written: on `inputs`, or on ones of every kind
    where nobody gave any, unknown extents being 1."""
    import numpy as np

    try:
        engine = OrtEngine(file, optimize=False)
        if inputs is None:
            ports = [(p["name"], p["shape"], p["type"]) for p in engine.ports]
            if any(prod(n or 1 for n in shape) > _MOST for _, shape, _ in ports):
                return False
            given = {n: np.ones(s, "object" if t == "string" else t) for n, s, t in ports}
        else:
            given = dict(inputs)
        engine.run(given)
    except (QError, TypeError):  # a type that numpy does not have
        return False
    return True


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
    """An operand as the interpreter holds it (`qdialect.interpreter.values`), as numpy
    has the ONNX type: bf16 is held in f32, narrow types one to a byte."""
    dtype = _dtype(value)
    if dtype is None or not hasattr(array, "dtype") or array.dtype == dtype:
        return array
    return array.view(dtype) if _is_bits(value) else array.astype(dtype)


def _as_laid_out(array: NDArray[Any], value: SSAValue) -> NDArray[Any]:
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
    element = element_type(value.type)
    return isinstance(element, AnyFloat) and element.bitwidth <= 8


_SECONDS = 20.0
"""How long a kept node may run."""
_NOT_BY_THE_RUNTIME = frozenset({"DFT", "MaxUnpool", "STFT"})
"""Ops on which ONNX Runtime misses the node tests of ONNX that the reference passes."""


def _run_node(op: NodeOp, operands: Sequence[NDArray[Any]], store: BlobStore) -> list[NDArray[Any]]:
    model = _one_node(op, operands, store)
    feeds = {entry.name: array for entry, array in zip(model.graph.input, operands, strict=True)}
    reason = "ONNX Runtime computes something else"
    if op.domain.data or op.op_type.data not in _NOT_BY_THE_RUNTIME:
        try:
            engine = OrtEngine(model, optimize=False, seconds=_SECONDS)
            return list(engine.run(feeds).values())
        except InputError as refusal:
            reason = refusal.message
            if refusal.code == "engine-failed":  # nor may the same end this process
                raise QError(reason, code="cannot-evaluate") from None
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
