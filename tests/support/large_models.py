"""How much memory models of large weights take to read, optimize and write, each in a process
of its own.

    python -m tools.bench memory                        1 GB in 16 tensors, and in one
    python -m tools.bench memory --megabytes 256 --cases s8-external,u8-inline

What counts is memory that is ours (anonymous: `RssAnon` of Linux): pages of a mapped file are
the system's, which takes them back when it wants to. Both are told, over what a model of
next to no weights takes, and the seconds of each step.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: how weights are stored, and where: `u8` ones are re-encoded for ONNX Runtime's kernels, `t8`
#: ones (signed) are transposed by a node, which is folded into them, and so are the
#: quantizations of `q32` ones, floats
STORAGES = ("s8", "u8", "t8", "q32", "f32")
PLACES = ("external", "inline", "mlir")
CASES = tuple(f"{storage}-{place}" for storage in STORAGES for place in PLACES)
_WIDTH = 4096


def write_network(
    folder: Path, case: str, tensors: int, rows: int, *, width: int = _WIDTH
) -> tuple[Path, int]:
    """A chain of quantized matrix products with `tensors` weights of rows x width elements,
    and the bytes of its largest weight.

    All are codes but f32, which stays as it is.
    """
    import numpy as np
    from onnx import TensorProto, helper

    storage, place = case.split("-")
    codes = storage not in ("q32", "f32")
    kind = TensorProto.INT8 if codes else TensorProto.FLOAT
    kind = TensorProto.UINT8 if storage == "u8" else kind
    size = rows * width * (1 if codes else 4)
    nodes: list[Any] = []
    small: list[Any] = [
        helper.make_tensor("xs", TensorProto.FLOAT, [], [0.05]),
        helper.make_tensor("xz", TensorProto.UINT8, [], [120]),
        helper.make_tensor("ws", TensorProto.FLOAT, [], [0.01]),
        helper.make_tensor(
            "wz", kind if codes else TensorProto.INT8, [], [128 if storage == "u8" else 0]
        ),
    ]
    weights: list[Any] = []
    random = np.random.default_rng(7)
    data = folder / "net.onnx.data"
    with data.open("wb") as file:
        for n in range(tensors):
            source, result = f"x{n}", f"x{n + 1}"
            nodes += _layer(n, source, result, storage)
            weight = TensorProto()
            weight.name, weight.data_type = f"w{n}", kind
            weight.dims.extend(
                [rows, width] if (n % 2 == 0) != (storage == "t8") else [width, rows]
            )
            weight.data_location = TensorProto.EXTERNAL
            place_of = {"location": data.name, "offset": file.tell(), "length": size}
            for key, value in place_of.items():
                weight.external_data.add(key=key, value=str(value))
            weights.append(weight)
            left = size
            while left:
                count = min(left, 1 << 24)
                if codes:
                    file.write(random.bytes(count))
                else:
                    file.write(random.standard_normal(count // 4, np.float32).tobytes())
                left -= count
    last = width if tensors % 2 else rows
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, [1, rows])],
        [helper.make_tensor_value_info(f"x{tensors}", TensorProto.FLOAT, [1, last])],
        [*small, *weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    path = folder / "net.onnx"
    path.write_bytes(model.SerializeToString())
    if place == "inline":
        from onnx.external_data_helper import load_external_data_for_model

        load_external_data_for_model(model, str(folder))
        data.unlink()
        path.write_bytes(model.SerializeToString())
    elif place == "mlir":
        import qdialect as qd

        qd.save(qd.load(path), folder / "net.mlir")
        path.unlink()
        data.unlink()
        path = folder / "net.mlir"
    return path, size


def _layer(n: int, source: str, result: str, storage: str) -> list[Any]:
    from onnx import helper

    made = [
        helper.make_node("QuantizeLinear", [source, "xs", "xz"], [f"q{n}"], name=f"quantize{n}"),
        helper.make_node("DequantizeLinear", [f"q{n}", "xs", "xz"], [f"d{n}"], name=f"real{n}"),
    ]
    weight = f"w{n}"
    if storage == "q32":
        made.append(helper.make_node("QuantizeLinear", [weight, "ws", "wz"], [f"c{n}"]))
        weight = f"c{n}"
    if storage != "f32":
        made.append(helper.make_node("DequantizeLinear", [weight, "ws", "wz"], [f"v{n}"]))
        weight = f"v{n}"
    if storage == "t8":
        made.append(helper.make_node("Transpose", [weight], [f"t{n}"], perm=[1, 0]))
        weight = f"t{n}"
    product = helper.make_node("MatMul", [f"d{n}", weight], [f"p{n}"], name=f"product{n}")
    ends = [
        helper.make_node("QuantizeLinear", [f"p{n}", "xs", "xz"], [f"e{n}"], name=f"codes{n}"),
        helper.make_node("DequantizeLinear", [f"e{n}", "xs", "xz"], [result], name=f"end{n}"),
    ]
    return [*made, product, *ends]


# -- measuring ------------------------------------------------------------------------


class Peak(threading.Thread):
    """Samples of the memory of this process; Linux only."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.anonymous = self.resident = self.data = 0
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(0.002):
            self.look()

    def look(self) -> None:
        """One sample."""
        with open("/proc/self/status", "rb") as file:
            found = dict(line.split(b":", 1) for line in file if b" kB" in line)
        wanted = (b"RssAnon", b"VmRSS", b"VmData")
        anonymous, resident, data = (int(found[key].split()[0]) << 10 for key in wanted)
        self.anonymous = max(self.anonymous, anonymous)
        self.resident = max(self.resident, resident)
        self.data = max(self.data, data)

    def end(self) -> None:
        """No more samples."""
        self.look()
        self._ended.set()
        self.join()


def measure(source: str, result: str, numerics: str) -> dict[str, Any]:
    """Read, optimize and write a model in this process: seconds of each, peaks in bytes."""
    import qdialect as qd

    peak = Peak()
    peak.start()
    seconds: dict[str, float] = {}
    steps: list[tuple[str, Callable[[Any], Any]]] = [
        ("load", lambda _: qd.load(source)),
        ("optimize", lambda model: qd.optimize(model, numerics=numerics)),
        ("save", lambda model: qd.save(model, result)),
    ]
    model: Any = None
    peaks: dict[str, int] = {}
    for name, step in steps:
        start = time.process_time()
        model = step(model)
        seconds[name] = time.process_time() - start
        peak.look()
        peaks[name] = peak.anonymous
    peak.end()
    return {
        "anonymous": peak.anonymous,
        "resident": peak.resident,
        "data": peak.data,
        "peaks": peaks,
        "seconds": seconds,
    }


def measured(source: Path, result: Path, *, numerics: str = "exact", limit: int = 0) -> Any:
    """`measure` in a new process; with `limit` one that may have only so many bytes of data
    (`RLIMIT_DATA`)."""
    code = (
        "import json, resource, sys; sys.path.insert(0, sys.argv[1])\n"
        "limit = int(sys.argv[5])\n"
        "if limit: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))\n"
        "from tests.support import large_models\n"
        "print(json.dumps(large_models.measure(*sys.argv[2:5])))\n"
    )
    given = [str(Path(__file__).parents[2]), str(source), str(result), numerics, str(limit)]
    # Threads of libraries have heaps of their own, which would be counted as ours.
    env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, *given], capture_output=True, text=True, env=env, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout)


def table(
    cases: list[str], megabytes: int, tensors: int, folder: Path, numerics: str
) -> list[dict[str, Any]]:
    """One row for each case, over the least that any model takes."""
    rows: list[dict[str, Any]] = []
    for case in cases:
        width = 4 if "32" in case else 1
        extent = max((megabytes << 20) // tensors // width // _WIDTH, 1)
        with tempfile.TemporaryDirectory(dir=folder) as name:
            small, _ = write_network(Path(name), case, 1, 16)
            least = measured(small, Path(name) / f"least{small.suffix}", numerics=numerics)
            source, largest = write_network(Path(name), case, tensors, extent)
            found = measured(source, Path(name) / f"out{source.suffix}", numerics=numerics)
        over = {k: found[k] - least[k] for k in ("anonymous", "resident")}
        rows.append({"case": case, "tensors": tensors, "largest": largest, **found, "over": over})
    return rows


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--tensors", type=int, nargs="+", default=[16, 1])
    parser.add_argument("--cases", default="s8-external,s8-inline,s8-mlir,u8-external")
    parser.add_argument("--numerics", default="exact")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args(arguments)
    cases = chosen.cases.split(",")
    if unknown := set(cases) - set(CASES):
        parser.error(f"no case {sorted(unknown)}; there are {', '.join(CASES)}")
    every: list[dict[str, Any]] = []
    print("case          tensors largest  ours  /largest  with files   load  optimize  save")
    for count in chosen.tensors:
        for row in table(cases, chosen.megabytes, count, chosen.folder, chosen.numerics):
            every.append(row)
            over, seconds, mega = row["over"], row["seconds"], 1 << 20
            print(
                f"{row['case']:14} {count:6} {row['largest'] / mega:5.0f}MB "
                f"{over['anonymous'] / mega:5.0f}MB {over['anonymous'] / row['largest']:6.2f} "
                f"{over['resident'] / mega:9.0f}MB "
                f"{seconds['load']:6.2f}s {seconds['optimize']:7.2f}s {seconds['save']:6.2f}s",
                flush=True,
            )
    if chosen.json:
        chosen.json.write_text(json.dumps(every, indent=1))


if __name__ == "__main__":
    main()
