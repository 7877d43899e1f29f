"""Models with something wrong in them: `qopt optimize` refuses or reads each, and no more.

Small models are damaged at random: fields of their messages (dropped, repeated, swapped,
set to what they should not be) or bytes. Each result goes through the whole command in a
child process with little memory. What is a failure: a signal, a traceback (exit code 70), an
exit code other than 0 and 1, no word or no place of the error, something written all the same,
too much time.

    python -m tools.fuzz commands --count 10000 --seed 7 --keep failures/
"""

# pyright: basic
from __future__ import annotations

import argparse
import os
import random
import resource
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.support.tables import step

MEGABYTES = 1024
"""Address space a child may take beyond what it began with (threads of ONNX Runtime count)."""
SECONDS = 30
SUFFIXES = (".onnx", ".tflite", ".pt2", ".mlirbc", ".mlir")
"""Files that `qopt optimize` takes."""
TOO_LONG = (-signal.SIGALRM, -signal.SIGXCPU)
"""How a child ends that takes more time."""

INTEGERS = (0, 1, -1, 2, 3, 5, 17, 255, 2**15, 2**31 - 1, 2**31, -(2**31), 2**40, 2**62, -(2**63))
FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-45, 1e38, float("inf"), float("nan"), 0.5)
TEXTS = ("", "x", "y", "../../etc/passwd", "/dev/zero", "a\n b", "%s", "ü" * 9, "com.microsoft")


# -- what is damaged ----------------------------------------------------------------------


def _constants(**arrays: Any) -> list[TensorProto]:
    return [numpy_helper.from_array(np.asarray(value), name) for name, value in arrays.items()]


def _value(name: str, shape: Sequence[int | str], kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def _pair(source: str, result: str, scale: str = "s", zero: str = "z") -> list[Any]:
    code = f"{result}_q"
    return [
        helper.make_node("QuantizeLinear", [source, scale, zero], [code], name=code),
        helper.make_node("DequantizeLinear", [code, scale, zero], [result], name=result),
    ]


def _model(nodes: list[Any], inputs: list[Any], outputs: list[Any], constants: list[Any]) -> Any:
    graph = helper.make_graph(nodes, "net", inputs, outputs, constants)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 10
    return onnx.shape_inference.infer_shapes(model)


def quantized_net() -> onnx.ModelProto:
    """Convolution, addition, pooling, reshape and Gemm, with weights per channel."""
    rng = np.random.default_rng(0)
    constants = _constants(
        s=np.float32(0.05),
        z=np.uint8(120),
        w=rng.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8),
        ws=np.full(4, 0.01, np.float32),
        wz=np.zeros(4, np.int8),
        b=np.arange(4, dtype=np.int32),
        bs=np.full(4, 0.0005, np.float32),
        bz=np.zeros(4, np.int32),
        g=rng.integers(-127, 128, (5, 4)).astype(np.int8),
        gs=np.float32(0.02),
        gz=np.int8(0),
        shape=np.array([1, -1]),
    )
    nodes = [
        *_pair("x", "x_d"),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["w_d"], name="w_d", axis=0),
        helper.make_node("DequantizeLinear", ["b", "bs", "bz"], ["b_d"], name="b_d", axis=0),
        helper.make_node(
            "Conv", ["x_d", "w_d", "b_d"], ["c"], name="conv", pads=[1, 1, 1, 1], strides=[1, 1]
        ),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        *_pair("r", "r_d"),
        helper.make_node("Add", ["r_d", "r_d"], ["a"], name="add"),
        *_pair("a", "a_d"),
        helper.make_node("MaxPool", ["a_d"], ["p"], name="pool", kernel_shape=[2, 2]),
        *_pair("p", "p_d"),
        helper.make_node("GlobalAveragePool", ["p_d"], ["m"], name="mean"),
        *_pair("m", "m_d"),
        helper.make_node("Reshape", ["m_d", "shape"], ["f"], name="flat"),
        helper.make_node("DequantizeLinear", ["g", "gs", "gz"], ["g_d"], name="g_d"),
        helper.make_node("Gemm", ["f", "g_d"], ["h"], name="gemm", transB=1),
        *_pair("h", "h_d"),
        helper.make_node("Softmax", ["h_d"], ["y"], name="softmax", axis=-1),
    ]
    return _model(nodes, [_value("x", [1, 3, 6, 6])], [_value("y", [1, 5])], constants)


def kernel_net() -> onnx.ModelProto:
    """The same with integer kernels."""
    from qdialect.ir.context import new_context
    from qdialect.pipeline.manager import PassManager
    from qdialect.pipeline.plugins import Plugins
    from qdialect.pipeline.text import parse_pipeline
    from qdialect.plugins.onnx.read import import_model
    from qdialect.plugins.onnx.write import write_model

    ctx = new_context()
    module = import_model(quantized_net(), ctx)
    passes = Plugins().registry().build(parse_pipeline("integerize,canonicalize,dce"))
    PassManager(ctx, passes).run(module)
    return write_model(module, ctx, form="qoperator").whole()


def movement_net() -> onnx.ModelProto:
    """Ops that move elements, with indices, bounds and shapes as constants."""
    constants = _constants(
        s=np.float32(0.1),
        z=np.uint8(3),
        starts=np.array([0, 1]),
        ends=np.array([2, 9]),
        axes=np.array([1, 2]),
        pads=np.array([0, 0, 1, 0, 0, 1]),
        index=np.array([[1, 0]]),
        reps=np.array([1, 1, 2, 1]),
    )
    nodes = [
        *_pair("x", "x_d"),
        helper.make_node("Transpose", ["x_d"], ["t"], name="t", perm=[0, 2, 1]),
        helper.make_node("Slice", ["t", "starts", "ends", "axes"], ["u"], name="u"),
        helper.make_node("Pad", ["u", "pads"], ["v"], name="v"),
        helper.make_node("Gather", ["v", "index"], ["w"], name="w", axis=1),
        helper.make_node("Tile", ["w", "reps"], ["i"], name="i"),
        helper.make_node("Split", ["i"], ["j", "k"], name="j", axis=2, num_outputs=2),
        helper.make_node("Concat", ["j", "k"], ["l"], name="l", axis=1),
        *_pair("l", "y"),
    ]
    return _model(nodes, [_value("x", ["n", 4, 3])], [_value("y", list("abcd"))], constants)


def control_net() -> onnx.ModelProto:
    """If and Loop over quantized values, an LSTM, and a function."""
    rng = np.random.default_rng(0)
    branch = [
        helper.make_graph(
            [helper.make_node(kind, ["x_d"], [kind])], kind, [], [_value(kind, ["t", 1, 3])]
        )
        for kind in ("Relu", "Neg")
    ]
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["on"]),
            helper.make_node("Add", ["held", "x_d"], ["next"]),
        ],
        "body",
        [_value("i", [], 7), _value("go", [], 9), _value("held", ["t", 1, 3])],
        [_value("on", [], 9), _value("next", ["t", 1, 3])],
    )
    constants = _constants(
        s=np.float32(0.1),
        z=np.int8(0),
        count=np.array(2),
        W=rng.normal(size=(1, 8, 3)).astype(np.float32),
        R=rng.normal(size=(1, 8, 2)).astype(np.float32),
    )
    nodes = [
        *_pair("x", "x_d"),
        helper.make_node(
            "If", ["choice"], ["b"], name="if", then_branch=branch[0], else_branch=branch[1]
        ),
        helper.make_node("Loop", ["count", "", "b"], ["l"], name="loop", body=body),
        helper.make_node("LSTM", ["l", "W", "R"], ["h"], name="lstm", hidden_size=2),
        *_pair("h", "y"),
    ]
    inputs = [_value("x", ["t", 1, 3]), _value("choice", [], TensorProto.BOOL)]
    return _model(nodes, inputs, [_value("y", list("abcd"))], constants)


MODELS: tuple[Callable[[], onnx.ModelProto], ...] = (
    quantized_net,
    kernel_net,
    movement_net,
    control_net,
)


def node_tests() -> list[onnx.ModelProto]:
    """The models of the onnx package's own node tests."""
    from onnx.backend.test.loader import load_model_tests

    return [case.model for case in load_model_tests(kind="node") if case.model is not None]


# -- damage -------------------------------------------------------------------------------


def _messages(message: Any) -> Iterator[Any]:
    """A message and all in it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if _is_repeated(message, field.name) else [value]:
                yield from _messages(inner)


def _is_repeated(message: Any, name: str) -> bool:
    return hasattr(getattr(message, name), "add") or hasattr(getattr(message, name), "append")


def _names(model: onnx.ModelProto) -> list[str]:
    graph = model.graph
    return [
        *(v.name for v in (*graph.input, *graph.output, *graph.initializer)),
        *(name for node in graph.node for name in (*node.input, *node.output)),
    ]


class Damage:
    """A source of damaged models."""

    def __init__(self, seed: int, models: Sequence[onnx.ModelProto]) -> None:
        self.random = random.Random(seed)
        self.models = models

    def draw(self) -> bytes:
        """The bytes of the next one."""
        model = onnx.ModelProto()
        model.CopyFrom(self.random.choice(self.models))
        if self.random.random() < 0.15:
            return self._bytes(model.SerializeToString())
        for _ in range(self.random.choice((1, 1, 1, 2, 3))):
            self._field(model)
        return model.SerializeToString()

    def _bytes(self, data: bytes) -> bytes:
        changed = bytearray(data)
        start = self.random.randrange(len(changed))
        kind = self.random.randrange(4)
        if kind == 0:
            del changed[start:]
        elif kind == 1:
            del changed[start : start + self.random.randrange(1, 40)]
        elif kind == 2:
            end = self.random.randrange(len(changed))
            changed[start:start] = changed[end : end + 40]
        else:
            for _ in range(self.random.randrange(1, 6)):
                changed[self.random.randrange(len(changed))] = self.random.randrange(256)
        return bytes(changed)

    def _field(self, model: onnx.ModelProto) -> None:
        choose = self.random.choice
        held = [(m, f) for m in _messages(model) for f, _ in m.ListFields()]
        # What is interesting is in nodes and tensors; a few others come along.
        message, field = choose(held)
        name, repeated = field.name, _is_repeated(message, field.name)
        if self.random.random() < 0.1:
            field = choose(message.DESCRIPTOR.fields)
            name, repeated = field.name, _is_repeated(message, field.name)
        if repeated:
            self._repeated(model, getattr(message, name), field)
        elif field.message_type is not None or self.random.random() < 0.15:
            message.ClearField(name)
        else:
            setattr(message, name, self._scalar(model, field, getattr(message, name)))

    def _repeated(self, model: onnx.ModelProto, values: Any, field: Any) -> None:
        kind = self.random.randrange(5)
        if not len(values):
            if field.message_type is None:
                values.append(self._scalar(model, field, None))
            return
        index = self.random.randrange(len(values))
        if kind == 0:
            del values[index]
        elif kind == 1:
            values.append(values[index])
        elif kind == 2 and len(values) > 1:
            other = self.random.randrange(len(values))
            kept = [values[i] for i in range(len(values))]
            copies = (
                [type(v).FromString(v.SerializeToString()) for v in kept]
                if (field.message_type is not None)
                else kept
            )
            copies[index], copies[other] = copies[other], copies[index]
            del values[:]
            values.extend(copies)
        elif field.message_type is None:
            values[index] = self._scalar(model, field, values[index])
        else:
            del values[index:]

    def _scalar(self, model: onnx.ModelProto, field: Any, old: Any) -> Any:
        choose = self.random.choice
        if field.type == field.TYPE_STRING:
            return choose((*_names(model), *TEXTS))
        if field.type == field.TYPE_BYTES:
            data = old or b""
            return choose((b"", data[: len(data) // 2], data + data, b"\xff" * 7))
        if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
            return choose(FLOATS)
        if field.type == field.TYPE_ENUM:
            return choose([v.number for v in field.enum_type.values])
        small = field.type in (field.TYPE_INT32, field.TYPE_UINT32)
        values = [v for v in INTEGERS if -(2**31) <= v < 2**31] if small else list(INTEGERS)
        if isinstance(old, int) and self.random.random() < 0.4:
            values = [v for v in (old + 1, old - 1, -old, old * 2) if abs(v) < 2**31]
        if field.type in (field.TYPE_UINT32, field.TYPE_UINT64):
            values = [abs(v) for v in values]
        return choose(values)


# -- running ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What became of one model; `failure` says what is wrong with that."""

    code: int
    error: str
    failure: str = ""


def try_model(data: bytes, megabytes: int = MEGABYTES, suffix: str = ".onnx") -> Outcome:
    """`qopt optimize` on a file with these bytes, in a child."""
    with tempfile.TemporaryDirectory(prefix="fuzz") as folder:
        source = Path(folder) / f"in{suffix}"
        target = Path(folder) / f"out{suffix.replace('.pt2', '.mlir')}"
        source.write_bytes(data)
        arguments = ["optimize", str(source), "-o", str(target), "--race", "0"]
        code, text = command(arguments, megabytes)
        left = sorted(p.name for p in Path(folder).iterdir() if p != source)
    return Outcome(code, text, _failure(code, text, left))


def command(
    arguments: Sequence[str],
    megabytes: int = MEGABYTES,
    seconds: int = SECONDS,
    fresh: bool = False,
) -> tuple[int, str]:
    """The exit code of `qopt`, in a child of this process or in a `fresh` one, and what it says."""
    with tempfile.TemporaryDirectory(prefix="said") as folder:
        said = Path(folder) / "stderr"
        child = os.fork()
        if child == 0:
            _child(arguments, said, megabytes, seconds, fresh)
        _, status = os.waitpid(child, 0)
        text = said.read_text(errors="replace") if said.exists() else ""
    return os.waitstatus_to_exitcode(status), text


def _child(arguments: Sequence[str], said: Path, megabytes: int, seconds: int, fresh: bool) -> None:
    descriptor = os.open(said, os.O_WRONLY | os.O_CREAT)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    # A machine with other work takes longer, but computes no more.
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    signal.alarm(10 * seconds)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = used + (megabytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    tempfile.tempdir = str(said.parent)
    code = 99
    try:
        if fresh:
            os.environ["TMPDIR"] = str(said.parent)
            os.execv(sys.executable, [sys.executable, "-m", "qdialect.cli.qopt", *arguments])
        from qdialect.cli.qopt import main

        code = main(list(arguments))
        sys.stderr.flush()
    finally:
        os._exit(code)


def _failure(code: int, text: str, left: Sequence[str]) -> str:
    if code in TOO_LONG:
        return f"took more than {SECONDS} s"
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    if code == 0:
        return (
            ""
            if left and all(name.startswith("out.") for name in left)
            else "nothing written, and no error"
        )
    if code != 1:
        return f"exit code {code}: {text.splitlines()[0] if text else ''}"
    if left:
        return f"written all the same: {', '.join(left)}"
    if "Traceback" in text:
        return "a traceback"
    if "outside its contract" in text or "does not run where the original does" in text:
        return f"not the same function: {text.splitlines()[0]}"
    return "" if "error: " in text else f"no error is told: {text!r}"


def warm_up() -> None:
    """Import what every child needs once, here."""
    from qdialect.cli.qopt import main

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        onnx.save(quantized_net(), path)
        main(["optimize", str(path), "-o", f"{folder}/out.onnx", "--race", "0", "--quiet"])


def fuzz(
    seed: int,
    count: int,
    draw: Callable[[], bytes],
    suffix: str = ".onnx",
    keep: Path | None = None,
    megabytes: int = MEGABYTES,
) -> tuple[Counter[str], list[str]]:
    """How often what came out, and the failures."""
    counts, failures = Counter[str](), list[str]()
    for number in range(count):
        data = draw()
        outcome = try_model(data, megabytes, suffix)
        counts["failed" if outcome.failure else "read" if outcome.code == 0 else "refused"] += 1
        if outcome.failure:
            failures.append(f"seed {seed}, number {number}: {outcome.failure}")
            print(failures[-1], file=sys.stderr, flush=True)
            if keep is not None:
                keep.mkdir(parents=True, exist_ok=True)
                (keep / f"{seed}-{number}{suffix}").write_bytes(data)
    return counts, failures


def main(arguments: Sequence[str] | None = None) -> int:
    from tests.support.readers import READERS

    files = [name for name, reader in READERS.items() if reader.suffix in SUFFIXES]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reader", choices=files, default="onnx", help="what kind of file")
    parser.add_argument("--count", type=int, default=200, help="how many models")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--megabytes", type=int, default=MEGABYTES, help="memory of a child")
    parser.add_argument("--node-tests", action="store_true", help="damage onnx's node tests too")
    parser.add_argument("--keep", type=Path, help="where to put models that failed")
    options = parser.parse_args(arguments)
    warm_up()
    reader = READERS[options.reader]
    if options.reader == "onnx":
        models = [build() for build in MODELS] + (node_tests() if options.node_tests else [])
        draw = Damage(options.seed, models).draw
    else:
        seeds, source = reader.seeds(), random.Random(options.seed)
        change = reader.damage(source, seeds)

        def draw() -> bytes:
            return change(source.choice(seeds))

    with step(f"{options.count} damaged models"):
        counts, failures = fuzz(
            options.seed, options.count, draw, reader.suffix, options.keep, options.megabytes
        )
    print(", ".join(f"{what} {number}" for what, number in sorted(counts.items())))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
