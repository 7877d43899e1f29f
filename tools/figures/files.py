"""Model files as their engines run them, and how far two are apart. Nothing here is qdialect's."""

# pyright: basic
from __future__ import annotations

import json
import math
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

ort.set_default_logger_severity(4)
CASTS = ("QuantizeLinear", "DequantizeLinear")
Arrays = Mapping[str, np.ndarray]


def _options(optimized: bool, saved: Path | None = None) -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    level = ort.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimized else level.ORT_DISABLE_ALL
    if saved is not None:
        options.optimized_model_filepath = str(saved)
    return options


class File:
    """A model file: its bytes, what its engine executes of it, what it gives."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sessions: dict[bool, ort.InferenceSession] = {}

    @cached_property
    def model(self) -> onnx.ModelProto:
        """An ONNX file without what lies beside it."""
        return onnx.load(self.path, load_external_data=False)

    @property
    def outputs(self) -> list[str]:
        """The names of the outputs of an ONNX file."""
        return [one.name for one in self.model.graph.output] if self.path.suffix == ".onnx" else []

    @property
    def runs(self) -> bool:
        """Whether an engine of ours runs it."""
        return self.path.suffix in (".onnx", ".tflite", ".pt2")

    @property
    def size(self) -> int:
        """Bytes of the file and of those that hold its weights."""
        beside = {self.path}
        if self.path.suffix == ".onnx":
            entries = (e for t in self.model.graph.initializer for e in t.external_data)
            beside |= {self.path.parent / e.value for e in entries if e.key == "location"}
        elif found := re.search(rb'nn.blobs = "([^"]+)"', self.path.read_bytes()):
            beside.add(self.path.parent / found[1].decode())
        return sum(each.stat().st_size for each in beside)

    def session(self, optimized: bool) -> ort.InferenceSession:
        """The file in ONNX Runtime on one thread."""
        if optimized not in self._sessions:
            self._sessions[optimized] = ort.InferenceSession(self.path, _options(optimized))
        return self._sessions[optimized]

    @cached_property
    def executed(self) -> dict[str, Any]:
        """Nodes, those with a float result by kind, and casts, of what the engine executes."""
        if self.path.suffix == ".tflite":
            ops, kinds = _tflite_ops(self.path)
            casts = ("QUANTIZE", "DEQUANTIZE")
        else:
            ops, kinds = self._onnx_ops()
            casts = CASTS
        floats = Counter(
            kind for kind, made in ops if kind not in casts and any(map(kinds, made[:1]))
        )
        found = sum(kind in casts for kind, _ in ops)
        return {"nodes": len(ops), "floats": dict(floats), "casts": found}

    def _onnx_ops(self):
        with tempfile.TemporaryDirectory() as folder:
            saved = Path(folder) / "saved.onnx"
            ort.InferenceSession(self.path, _options(True, saved))
            model = onnx.load(saved)
            # The runtime itself says what types its values have.
            known = {value.name for value in model.graph.output}
            names = {n for node in model.graph.node for n in node.output if n} - known
            model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in sorted(names))
            session = ort.InferenceSession(model.SerializeToString(), _options(False))
            types = {one.name: one.type for one in session.get_outputs()}
        for body in (b for node in model.graph.node for b in _bodies(node)):
            types |= {v.name: "float" for v in (*body.value_info, *body.output) if _is_float(v)}
        nodes = [(node.op_type, list(node.output)) for node in _nodes(model.graph)]
        return nodes, lambda name: any(t in types.get(name, "") for t in ("float", "double"))

    @cached_property
    def counts(self) -> dict[str, int]:
        """Casts that are left, of an ONNX file; of MLIR ops by kind, too."""
        if self.path.suffix == ".onnx":
            return dict(zip(("quantize", "dequantize"), _casts_left(self.model.graph), strict=True))
        if self.path.suffix != ".mlir":
            return {}
        kinds = Counter(
            re.findall(r'^ +(?:%.*? = )?"?([a-z_]+\.[a-z_0-9]+)', self.path.read_text(), re.M)
        )
        left = {key: kinds[f"quant.{key}"] for key in ("qcast", "dcast", "rescale")}
        total = kinds.total() - kinds["func.func"] - kinds["func.return"]
        return {"quantize": left["qcast"], "dequantize": left["dcast"], "ops": total,
                "rescale": left["rescale"]}  # fmt: skip

    def run(self, inputs: Arrays, optimized: bool = True) -> list[Any]:
        """The outputs in order, by the engine of the file's format."""
        if self.path.suffix == ".onnx":
            session = self.session(optimized)
            return list(session.run(None, {i.name: inputs[i.name] for i in session.get_inputs()}))
        if self.path.suffix == ".tflite":
            return _run_tflite(self.path, list(inputs.values()))
        import torch

        found = torch.export.load(self.path).module()(*map(torch.tensor, inputs.values()))
        return [y.detach().numpy() for y in (found if isinstance(found, tuple) else (found,))]

    def samples(self, data: Path) -> list[Arrays]:
        """The samples of an .npz: as many rows as an input has, or an index of a leading axis."""
        rows: dict[str, list[np.ndarray]] = {}
        with np.load(data) as arrays:
            shapes = {name: ["", *array.shape[1:]] for name, array in arrays.items()}
            if self.path.suffix == ".onnx":
                shapes = {one.name: one.shape for one in self.session(False).get_inputs()}
            for name, (first, *rest) in shapes.items():
                array, each = arrays[name], first if isinstance(first, int) else 1
                is_row = array.ndim > len(rest) + 1
                rows[name] = list(array) if is_row else np.split(array, len(array) // each)
        return [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)]

    def drawn(self, seed: int) -> Arrays | None:
        """Inputs of our own, over the range that floats are quantized in; None where extents are
        not known."""
        random, found = np.random.default_rng(seed), {}
        constants = {t.name: t for t in self.model.graph.initializer}
        for one in self.session(False).get_inputs():
            if not all(isinstance(extent, int) for extent in one.shape):
                return None
            shape = one.shape
            low, high = -1.0, 1.0
            users = (n for n in self.model.graph.node if one.name in n.input)
            for node in (n for n in users if n.op_type == CASTS[0] and n.input[1] in constants):
                step = float(onnx.numpy_helper.to_array(constants[node.input[1]]).max())
                low, high = -130 * step, 130 * step
            kind = np.dtype({"float": "f4", "double": "f8", "float16": "f2"}.get(
                one.type[7:-1], one.type[7:-1]))  # fmt: skip
            array = random.uniform(low, high, shape) if kind.kind == "f" else random.integers(
                0, 2, shape)  # fmt: skip
            found[one.name] = array.astype(kind)
        return found


def _casts_left(graph: onnx.GraphProto) -> tuple[int, int]:
    """Quantizes and dequantizes that do not stand for the grids of an op on codes beside them."""
    makers = {name: node for node in graph.node for name in node.output}
    users = {one.name: [onnx.NodeProto(op_type="Return")] for one in graph.output}
    for node in graph.node:
        for name in filter(makers.__contains__, node.input):
            users.setdefault(name, []).append(node)
    quantize, dequantize = CASTS

    def on_codes(node: onnx.NodeProto) -> bool:
        above = {makers[n].op_type for n in node.input if n in makers}
        below = {user.op_type for name in node.output for user in users.get(name, ())}
        reads = node.op_type not in CASTS and dequantize in above
        return reads and above <= {dequantize, "Constant"} and below == {quantize}

    first = last = 0
    for node in graph.node:
        maker = makers.get(node.input[0]) if node.input else None
        if node.op_type == quantize:
            first += maker is None or not (maker.op_type == dequantize or on_codes(maker))
        elif node.op_type == dequantize:
            read = users.get(node.output[0], [])
            last += not all(user.op_type == quantize or on_codes(user) for user in read)
    return first, last


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for body in _bodies(node):
            yield from _nodes(body)


def _bodies(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    return [g for a in node.attribute for g in (*([a.g] if a.HasField("g") else []), *a.graphs)]


def _is_float(value: onnx.ValueInfoProto) -> bool:
    return value.type.tensor_type.elem_type in (1, 10, 11, 16)


def _interpreter(path: Path, plain: bool = False):
    from ai_edge_litert import interpreter as litert

    kinds = litert.OpResolverType
    how = kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES if plain else kinds.AUTO
    return litert.Interpreter(str(path), num_threads=1, experimental_op_resolver_type=how)


def _tflite_ops(path: Path):
    engine = _interpreter(path, plain=True)
    kinds = {t["index"]: np.dtype(t["dtype"]).kind for t in engine.get_tensor_details()}
    found: Any = engine._get_ops_details()
    ops = [(op["op_name"], list(op["outputs"])) for op in found]
    return ops, lambda index: kinds.get(index) == "f"


def _run_tflite(path: Path, arrays: Sequence[np.ndarray]) -> list[Any]:
    engine = _interpreter(path)
    for detail, array in zip(engine.get_input_details(), arrays, strict=True):
        engine.resize_tensor_input(detail["index"], array.shape)
    engine.allocate_tensors()
    for detail, array in zip(engine.get_input_details(), arrays, strict=True):
        engine.set_tensor(detail["index"], array)
    engine.invoke()
    return [engine.get_tensor(detail["index"]) for detail in engine.get_output_details()]


# -- how far two are apart -----------------------------------------------------------------


def decibels(signal: float, noise: float) -> float:
    """Power over power of the difference; infinite without one."""
    if not noise:
        return math.inf
    return 10 * math.log10(signal / noise) if signal and math.isfinite(noise) else -math.inf


def apart(first: Sequence[Any], second: Sequence[Any]) -> tuple[int, float, float]:
    """How many outputs are the same, the most elements that differ, the least dB."""
    pairs = [(np.asarray(a), np.asarray(b)) for a, b in zip(first, second, strict=True)]
    same = sum(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in pairs)
    share = max(float(np.mean(a != b)) if a.size else 0.0 for a, b in pairs)
    least = math.inf
    for a, b in ((a.astype("f8"), b.astype("f8")) for a, b in pairs if a.dtype.kind == "f"):
        sound = np.isfinite(a) & np.isfinite(b)
        signal, noise = np.square(a[sound]).sum(), np.square(a[sound] - b[sound]).sum()
        least = min(least, decibels(float(signal), float(noise)))
    return same, share, least


def loss(place: str, channel: int | None, xs: Sequence[Any], ys: Sequence[Any]) -> dict[str, Any]:
    """How far a part of an output is off over all samples, by the words of the manual."""
    cut = tuple(slice(*(int(n) if n else None for n in one.split(":")))
                for one in place.strip("[]").split(",") if one.strip())  # fmt: skip
    pairs = [(np.asarray(x)[cut], np.asarray(y)[cut]) for x, y in zip(xs, ys, strict=True)]
    if pairs[0][0].dtype.kind != "f":
        same = sum(int((x == y).sum()) for x, y in pairs)
        return {
            "sqnr_db": math.nan,
            "dead_channels": [],
            "agreement": same / sum(x.size for x, _ in pairs),
        }
    if channel is None:
        pairs = [(x.reshape(1, -1), y.reshape(1, -1)) for x, y in pairs]
    else:
        pairs = [tuple(np.moveaxis(a, channel, 0).reshape(a.shape[channel], -1) for a in pair)
                 for pair in pairs]  # fmt: skip
    pairs = [(x.astype("f8"), y.astype("f8")) for x, y in pairs]
    x, y = (np.concatenate([pair[side] for pair in pairs], 1) for side in (0, 1))
    signal, noise = np.square(x), np.square(x - y)
    sqnr = decibels(float(signal.sum()), float(noise.sum()))
    each = [decibels(float(np.square(a).sum()), float(np.square(a - b).sum())) for a, b in pairs]
    found: dict[str, Any] = {"sqnr_db": sqnr, "worst_channel_db": sqnr, "dead_channels": []}
    found["mean_db"] = float(np.mean([min(db, max(60.0, sqnr)) for db in each]))
    if len(x) > 1:
        loud = signal.mean(1) >= 1e-4 * signal.mean()
        dbs = [decibels(float(s), float(n))
               for s, n in zip(signal[loud].sum(1), noise[loud].sum(1), strict=True)]  # fmt: skip
        found["worst_channel_db"] = min(dbs, default=sqnr)
        found["agreement"] = float((x.argmax(0) == y.argmax(0)).mean())
        varies = np.ptp(x, 1) > np.ptp(x) * 4 / 256
        found["dead_channels"] = np.flatnonzero(varies & (np.ptp(y, 1) == 0)).tolist()
    return found


def page_data(report: Path) -> dict[str, Any]:
    """What a report shows."""
    text = report.read_text("utf-8").partition('type="application/json"')[2]
    return json.loads(text.partition(">")[2].partition("</script>")[0])
