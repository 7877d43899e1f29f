"""What runs in a child process: models in LiteRT or ONNX Runtime, asked for by messages.

It imports nothing of ours.  A message is a line of JSON, with its length before it, and the bytes
of arrays after it.  It has the seconds after which the child ends itself, the numbers of models to
forget, and what is asked for (`do`):

    load    a model (a file, or its bytes) in an `engine`; the answer has its inputs and outputs
    run     a model on arrays, in the order of its inputs; the answer has those of its outputs
    time    a model on the arrays of the last time: nanoseconds of each invocation
    nodes   what LiteRT executes, and which nodes of the file XNNPACK took
    profile the file in which ONNX Runtime wrote the times of nodes
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from threading import Thread
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_LENGTH = 8
RESOLVERS = {
    "litert-xnn": "BUILTIN",
    "litert-opt": "BUILTIN_WITHOUT_DEFAULT_DELEGATES",
    "litert-ref": "BUILTIN_REF",
}
"""What LiteRT calls its three sets of kernels."""
_STATE = frozenset({"VAR_HANDLE", "ASSIGN_VARIABLE", "READ_VARIABLE", "CALL_ONCE"})
"""Ops of variables that outlive a run."""


def send(stream: IO[bytes], header: Mapping[str, Any], values: Sequence[Any] = ()) -> None:
    """Write a message; `values` are arrays, and lists and maps of them."""
    arrays: list[Array] = []
    forms = [_form(value, arrays) for value in values]
    text = json.dumps({**header, "arrays": forms}).encode()
    stream.write(len(text).to_bytes(_LENGTH, "little") + text)
    for array in arrays:
        stream.write(array.data)
    stream.flush()


def receive(stream: Any) -> tuple[dict[str, Any], list[Any]] | None:
    """Read a message; None where the stream ends before or in it."""

    def array(size: int) -> Array:
        found = np.empty(size, np.uint8)
        if stream.readinto(found.data) < size:
            raise EOFError
        return found

    text = stream.read(int.from_bytes(stream.read(_LENGTH), "little"))
    try:
        header: dict[str, Any] = json.loads(text)
        return header, [_value(form, array) for form in header["arrays"]]
    except (EOFError, ValueError):
        return None


def _form(value: Any, arrays: list[Array]) -> Any:
    """A value as JSON, the bytes of its arrays apart. Types that numpy lacks go as their bits."""
    if isinstance(value, list | tuple):
        each = cast("Sequence[Any]", value)
        return {"list": [_form(one, arrays) for one in each]}
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value).items()
        return {"map": [[_form(one, arrays) for one in pair] for pair in pairs]}
    if isinstance(value, bytes):
        value = np.frombuffer(value, np.uint8)
    if not hasattr(value, "dtype"):
        return {"is": value}
    array: Array = np.asarray(value)
    if array.dtype.kind == "O":
        return {"text": list(map(str, array.flat)), "shape": array.shape}
    laid_out = np.ascontiguousarray(array)
    arrays.append(laid_out.reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8))
    bits = array.dtype.isbuiltin == 2
    kind = f"u{array.dtype.itemsize}" if bits else array.dtype.str
    return {"type": kind, "name": array.dtype.name, "shape": array.shape}


def _value(form: Mapping[str, Any], take: Callable[[int], Array]) -> Any:
    if "list" in form:
        return [_value(each, take) for each in form["list"]]
    if "map" in form:
        return {_value(key, take): _value(each, take) for key, each in form["map"]}
    if "is" in form:
        return form["is"]
    shape: list[int] = form["shape"]
    if "text" in form:
        return np.array(form["text"], object).reshape(shape)
    dtype: np.dtype[Any] = np.dtype(form["type"])
    return take(dtype.itemsize * math.prod(shape)).view(dtype).reshape(shape)


class LitertModel:
    """A model in LiteRT."""

    def __init__(self, engine: str, source: str | bytes, threads: int, _: bool) -> None:
        package: Any = import_module("ai_edge_litert.interpreter")
        resolver = package.OpResolverType[RESOLVERS[engine]]
        content = {"model_path": source} if isinstance(source, str) else {"model_content": source}

        def interpreter() -> Any:
            return package.Interpreter(
                **content,
                num_threads=threads,
                experimental_op_resolver_type=resolver,
            )

        self._new, self._interpreter = interpreter, interpreter()
        self._allocated = self._ran = False
        # A shape that only a run tells may be none that the file can be prepared with.
        if not any(-1 in each["shape_signature"] for each in self._inputs()):
            self._allocate()

    def _allocate(self) -> None:
        self._allocated = False
        self._interpreter.allocate_tensors()
        self._allocated = True

    def _inputs(self) -> list[Any]:
        return self._interpreter.get_input_details()

    def described(self) -> dict[str, Any]:
        """Inputs, outputs, and what signatures call them."""
        listed: Any = getattr(self._interpreter, "_get_full_signature_list", None)
        full: Any = {} if listed is None else listed()
        signatures = [
            {
                "key": key,
                "subgraph": int(each.get("subgraph_index", 0)),
                "inputs": {name: int(index) for name, index in each["inputs"].items()},
                "outputs": {name: int(index) for name, index in each["outputs"].items()},
            }
            for key, each in full.items()
        ]
        return {
            "inputs": [_port(each) for each in self._inputs()],
            "outputs": [_port(each) for each in self._interpreter.get_output_details()],
            "signatures": signatures,
        }

    def set(self, arrays: Sequence[Array]) -> None:
        """Fill the inputs, resized where they are of another shape."""
        inputs, changed = self._inputs(), not self._allocated
        for each, array in zip(inputs, arrays, strict=True):
            if tuple(each["shape"]) != array.shape:
                self._interpreter.resize_tensor_input(each["index"], array.shape)
                changed = True
        if changed:
            self._allocate()
        for each, array in zip(inputs, arrays, strict=True):
            self._interpreter.set_tensor(each["index"], array.astype(each["dtype"], copy=False))

    def invoke(self) -> None:
        """Run once."""
        self._interpreter.invoke()

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """The outputs, in the order of the file; variables are as at the start."""
        if self._ran and self._keeps_state():
            self._interpreter, self._allocated = self._new(), False
        self.set(arrays)
        self._interpreter.reset_all_variables()
        self._ran = True
        self.invoke()
        outputs = self._interpreter.get_output_details()
        return [np.asarray(self._interpreter.get_tensor(each["index"])) for each in outputs]

    def _keeps_state(self) -> bool:
        """Whether a run leaves something behind that `reset_all_variables` does not reset."""
        nodes: Any = self.nodes()["nodes"]
        return nodes is None or any(node["op"] in _STATE for node in nodes)

    def nodes(self) -> dict[str, Any]:
        """The ops that LiteRT has (those of the file, then delegates), by a private method."""
        try:
            if not self._allocated:
                shapes = [[max(int(n), 1) for n in each["shape"]] for each in self._inputs()]
                kinds = [each["dtype"] for each in self._inputs()]
                self.set([np.zeros(s, kind) for s, kind in zip(shapes, kinds, strict=True)])
            found: Any = self._interpreter._get_ops_details()
        except (AttributeError, KeyError, RuntimeError, TypeError, ValueError):
            return {"nodes": None}
        return {
            "nodes": [
                {
                    "op": each["op_name"],
                    "inputs": [int(n) for n in each["inputs"]],
                    "outputs": [int(n) for n in each["outputs"]],
                }
                for each in found
            ]
        }


def _port(details: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": details["name"],
        "index": int(details["index"]),
        "shape": [int(n) for n in details["shape"]],
        "signature": [int(n) for n in details["shape_signature"]],
        "type": np.dtype(details["dtype"]).name,
    }


class OrtModel:
    """A model in ONNX Runtime.

    The graph that the runtime made is written to `saved`, its weights beside it; with `profile` it
    times every node, and that is how the name of the file of times begins.
    """

    def __init__(
        self,
        engine: str,
        source: str | bytes,
        threads: int,
        optimize: bool,
        saved: str | None = None,
        profile: str | None = None,
    ) -> None:
        self._runtime: Any = import_module("onnxruntime")
        options = self._runtime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # What goes wrong is in the exceptions.
        options.log_severity_level = 4
        level = "ORT_ENABLE_ALL" if optimize else "ORT_DISABLE_ALL"
        options.graph_optimization_level = getattr(self._runtime.GraphOptimizationLevel, level)
        if profile is not None:
            options.enable_profiling = True
            options.profile_file_prefix = profile
        if saved is not None:
            options.optimized_model_filepath = saved
            # Else a model of more than 2 GB could not be written.
            for key, value in (("file_name", "weights"), ("min_size_in_bytes", "1024")):
                name = f"session.optimized_model_external_initializers_{key}"
                options.add_session_config_entry(name, value)
        self._session = self._runtime.InferenceSession(
            source, options, providers=["CPUExecutionProvider"]
        )
        self._inputs = [each.name for each in self._session.get_inputs()]
        self._outputs = [each.name for each in self._session.get_outputs()]
        self.invoke = self._invocation(())

    def described(self) -> dict[str, Any]:
        """Inputs and outputs."""

        def ports(entries: Sequence[Any]) -> list[dict[str, Any]]:
            return [
                {
                    "name": each.name,
                    "index": index,
                    "shape": [n if isinstance(n, int) else 1 for n in each.shape],
                    "signature": [n if isinstance(n, int) else -1 for n in each.shape],
                    "type": _ORT_TYPES.get(each.type[7:-1], each.type[7:-1]),
                }
                for index, each in enumerate(entries)
            ]

        return {
            "inputs": ports(self._session.get_inputs()),
            "outputs": ports(self._session.get_outputs()),
            "signatures": [],
        }

    def _invocation(
        self,
        arrays: Sequence[Any],
        names: Sequence[str] | None = None,
        codes: Sequence[int] | None = None,
    ) -> Callable[[], Any]:
        """A run on inputs, of which `codes` are the ONNX types where these are not those of numpy.
        Outputs stay in the runtime, if they are tensors of numbers."""
        feeds = dict(zip(names or self._inputs, arrays, strict=False))
        entries = (*self._session.get_inputs(), *self._session.get_outputs())
        if any(each.type[:7] != "tensor(" or each.type == "tensor(string)" for each in entries):
            return lambda: self._session.run(self._outputs, feeds)
        make: Any = self._runtime.OrtValue
        taken = {
            name: make.ortvalue_from_numpy_with_onnx_type(array, codes[index])
            if codes
            else make.ortvalue_from_numpy(array)
            for index, (name, array) in enumerate(feeds.items())
        }
        return lambda: self._session.run_with_ort_values(self._outputs, taken)

    def set(self, arrays: Sequence[Array], **given: Any) -> None:
        """Choose the inputs of invocations."""
        self.invoke = self._invocation(arrays, **given)

    def run(
        self,
        arrays: Sequence[Any],
        names: Sequence[str] | None = None,
        codes: Sequence[int] | None = None,
    ) -> list[Any]:
        """The outputs; with `codes` each as its type, its shape, and its elements or, of a type
        that numpy lacks, its bytes."""
        if codes is None:
            feeds = dict(zip(names or self._inputs, arrays, strict=True))
            return self._session.run(self._outputs, feeds)
        found = self._invocation(arrays, names, codes)()
        return [(each.data_type()[7:-1], each.shape(), _elements(each)) for each in found]

    def nodes(self) -> dict[str, Any]:
        """None: another command says what this runtime executes."""
        return {"nodes": None}

    def end_profiling(self) -> str:
        """The file of times, which is written."""
        return self._session.end_profiling()


def _elements(value: Any) -> Array:
    if value.data_type()[7:-1] not in NARROW:
        return value.numpy()
    size = value.tensor_size_in_bytes()
    return np.frombuffer(ctypes.string_at(value.data_ptr(), size), np.uint8)


_FLOATS_8 = ("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz")
NARROW = frozenset(("bfloat16", *_FLOATS_8, "float4e2m1", "int4", "uint4"))
"""Types that numpy lacks, as ONNX Runtime calls them."""
_ORT_TYPES = {"float": "float32", "double": "float64"}


class Server:
    """Answers what is asked."""

    def __init__(self) -> None:
        self.models: dict[int, Any] = {}

    def load(self, ask: Mapping[str, Any], values: Sequence[Any]) -> dict[str, Any]:
        """Load a model under a number, in so much memory."""
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        if hard == resource.RLIM_INFINITY or ask["memory"] < hard:
            resource.setrlimit(resource.RLIMIT_DATA, (ask["memory"], hard))
        source = values[0] if isinstance(values[0], str) else values[0].tobytes()
        maker = OrtModel if ask["engine"] == "onnxruntime" else LitertModel
        options = ask.get("options", {})
        model = maker(ask["engine"], source, ask["threads"], ask["optimize"], **options)
        self.models[ask["id"]] = model
        return model.described()

    def time(self, ask: Mapping[str, Any], values: Sequence[Any]) -> dict[str, Any]:
        """Run as often as asked, or for some nanoseconds, after some runs that are not timed;
        before each other memory is read (`cold`), so that the caches have nothing of it."""
        model = self.models[ask["id"]]
        if values:
            model.set(values, **ask.get("given", {}))
        clock: Callable[[], int]
        clock = time.thread_time_ns if ask["threads"] == 1 else time.perf_counter_ns
        invoke, found, spent = model.invoke, list[int](), 0
        other = np.zeros(ask.get("cold", 0) // 8, np.int64)
        for _ in range(ask["warm"]):
            invoke()
        while len(found) < ask["runs"] or (spent < ask["nanoseconds"] and len(found) < 10_000):
            other.sum()
            began = clock()
            invoke()
            found.append(clock() - began)
            spent += found[-1]
        return {"nanoseconds": found}

    def answer(self, ask: Mapping[str, Any], values: Sequence[Any]) -> tuple[Any, list[Any]]:
        """The header and the values of an answer."""
        for number in ask["forget"]:
            self.models.pop(number, None)
        do = ask["do"]
        if do == "load":
            return self.load(ask, values), []
        if do == "run":
            return {}, self.models[ask["id"]].run(values, **ask.get("given", {}))
        if do == "time":
            return self.time(ask, values), []
        if do == "profile":
            return {"file": self.models[ask["id"]].end_profiling()}, []
        return self.models[ask["id"]].nodes(), []


def main() -> None:
    """Answer until the other side ends."""
    # What the runtimes print must not get among the messages.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    asked, server = sys.stdin.buffer, Server()
    Thread(target=_end_with_parent, daemon=True).start()
    while (message := receive(asked)) is not None:
        signal.setitimer(signal.ITIMER_REAL, message[0]["seconds"])
        try:
            send(answers, *server.answer(*message))
        except Exception as error:  # the runtimes raise what they like
            send(answers, {"error": f"{error}" or type(error).__name__})
        signal.setitimer(signal.ITIMER_REAL, 0)


def _end_with_parent() -> None:
    """End this process when nobody can ask it any more, whatever it does."""
    poll = select.poll()
    poll.register(0, 0)
    poll.poll()
    os._exit(1)


if __name__ == "__main__":
    main()
