"""What runs in a child process: models in LiteRT or ONNX Runtime, asked for by messages.

It imports nothing of ours.  A message is a line of JSON, with its length
before it, and the bytes of arrays after it.  What it is asked (`do`):

    load    a model (`file`, or its bytes) in an `engine`; the answer has its inputs and outputs
    run     a model on arrays, in the order of its inputs; the answer has those of its outputs
    time    a model on the arrays of the last run: nanoseconds of each invocation
    nodes   what LiteRT executes, and which nodes of the file XNNPACK took
    forget  a model
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import IO, TYPE_CHECKING, Any

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


def send(stream: IO[bytes], header: Mapping[str, Any], arrays: Sequence[Array] = ()) -> None:
    """Write a message. Types that numpy lacks go as their bits."""
    laid_out = [np.ascontiguousarray(array) for array in arrays]
    kinds = [
        [f"u{a.dtype.itemsize}" if a.dtype.kind == "V" else a.dtype.str, a.dtype.name, a.shape]
        for a in laid_out
    ]
    text = json.dumps({**header, "arrays": kinds}).encode()
    stream.write(len(text).to_bytes(_LENGTH, "little") + text)
    for array in laid_out:
        if array.size:
            stream.write(array.reshape(-1).view(np.uint8).data)
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[dict[str, Any], list[Array]] | None:
    """Read a message; None at the end of the stream."""
    length = _exactly(stream, _LENGTH)
    text = None if length is None else _exactly(stream, int.from_bytes(length, "little"))
    if text is None:
        return None
    header: dict[str, Any] = json.loads(bytes(text))
    arrays: list[Array] = []
    for kind, _, shape in header["arrays"]:
        dtype = np.dtype(kind)
        found = _exactly(stream, dtype.itemsize * int(np.prod(shape, dtype=np.int64)))
        if found is None:
            return None
        arrays.append(np.frombuffer(found, dtype).reshape(shape).copy())
    return header, arrays


def _exactly(stream: IO[bytes], count: int) -> bytes | None:
    """So many bytes (a buffered stream reads all or meets its end)."""
    found = stream.read(count)
    return found if len(found) == count else None


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
    """A model in ONNX Runtime, on one thread; what `LitertModel` has, as far as it is timed."""

    def __init__(self, engine: str, source: str | bytes, threads: int, optimize: bool) -> None:
        runtime: Any = import_module("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        level = "ORT_ENABLE_ALL" if optimize else "ORT_DISABLE_ALL"
        options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, level)
        self._session = runtime.InferenceSession(
            source, options, providers=["CPUExecutionProvider"]
        )
        self._binding = self._session.io_binding()
        # The binding only points at them.
        self._inputs: list[Any] = []

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

    def set(self, arrays: Sequence[Array]) -> None:
        """Bind the inputs."""
        self._inputs = [np.ascontiguousarray(array) for array in arrays]
        for each, array in zip(self._session.get_inputs(), self._inputs, strict=True):
            self._binding.bind_cpu_input(each.name, array)
        for each in self._session.get_outputs():
            self._binding.bind_output(each.name)

    def invoke(self) -> None:
        """Run once; outputs stay in the runtime."""
        self._session.run_with_iobinding(self._binding)

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """The outputs."""
        self.set(arrays)
        self.invoke()
        return list(self._binding.copy_outputs_to_cpu())

    def nodes(self) -> dict[str, Any]:
        """None: another command says what this runtime executes."""
        return {"nodes": None}


_ORT_TYPES = {"float": "float32", "double": "float64"}


class Server:
    """Answers what is asked."""

    def __init__(self) -> None:
        self.models: dict[int, Any] = {}

    def load(self, ask: Mapping[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        """Load a model under a number."""
        file: str | None = ask["file"]
        source = arrays[0].tobytes() if file is None else file
        maker = OrtModel if ask["engine"] == "onnxruntime" else LitertModel
        model = maker(ask["engine"], source, ask["threads"], ask["optimize"])
        self.models[ask["id"]] = model
        return model.described()

    def time(self, ask: Mapping[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        """Run as often as asked, or for some nanoseconds, after some runs that are not timed."""
        model = self.models[ask["id"]]
        if arrays:
            model.set(arrays)
        clock: Callable[[], int]
        clock = time.thread_time_ns if ask["threads"] == 1 else time.perf_counter_ns
        invoke, found, spent = model.invoke, list[int](), 0
        for _ in range(ask["warm"]):
            invoke()
        while len(found) < ask["runs"] or (spent < ask["nanoseconds"] and len(found) < 10_000):
            began = clock()
            invoke()
            found.append(clock() - began)
            spent += found[-1]
        return {"nanoseconds": found}

    def answer(self, ask: Mapping[str, Any], arrays: Sequence[Array]) -> tuple[Any, list[Array]]:
        """The header and the arrays of an answer."""
        do = ask["do"]
        if do == "load":
            return self.load(ask, arrays), []
        if do == "run":
            return {}, self.models[ask["id"]].run(arrays)
        if do == "time":
            return self.time(ask, arrays), []
        if do == "nodes":
            return self.models[ask["id"]].nodes(), []
        self.models.pop(ask["id"], None)
        return {}, []


def main() -> None:
    """Answer until the other side ends."""
    # What the runtimes print must not get among the messages.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    asked = sys.stdin.buffer
    server = Server()
    while (message := receive(asked)) is not None:
        try:
            header, arrays = server.answer(*message)
            send(answers, header, arrays)
        except Exception as error:  # the runtimes raise what they like
            send(answers, {"error": f"{error}" or type(error).__name__})


if __name__ == "__main__":
    main()
