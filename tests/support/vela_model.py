"""A TensorFlow Lite file of unconnected operators, and what Vela puts on the NPU of them.

Run by the interpreter that Vela is installed for: `python vela_model.py ACCELERATOR < cases.json`.
A case is an operator:

    {"op": "CONV_2D", "inputs": [TENSOR, ...], "outputs": [TENSOR],
     "options": ["Conv2DOptions", {"StrideW": 1, ...}]}

and a tensor `{"shape": [...], "type": "INT8", "scale": 0.5, "zero": 3}`, perhaps with the "data" of
a constant. What is printed is a list: whether each operator is on the NPU, or null if TensorFlow
Lite has no such operator.
"""

# pyright: basic
from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

TYPES = {"INT8": "b", "UINT8": "B", "INT16": "h", "INT32": "i", "FLOAT32": "f"}


def _table(builder: Any, name: str, fields: dict[str, Any]) -> int:
    module = import_module(f"ethosu.vela.tflite.{name}")
    getattr(module, f"{name}Start")(builder)
    for field, value in fields.items():
        getattr(module, f"{name}Add{field}")(builder, value)
    return getattr(module, f"{name}End")(builder)


def _vector(builder: Any, kind: str, values: list[Any]) -> int:
    import numpy as np

    if kind != "offset":
        return builder.CreateNumpyVector(np.array(values, kind))
    builder.StartVector(4, len(values), 4)
    for value in reversed(values):
        builder.PrependUOffsetTRelative(value)
    return builder.EndVector()


def model_bytes(cases: list[dict[str, Any]]) -> bytes:
    """The file; output number i of the model is that of operator i."""
    import flatbuffers
    import numpy as np

    builtin = import_module("ethosu.vela.tflite.BuiltinOperator").BuiltinOperator
    options_of = import_module("ethosu.vela.tflite.BuiltinOptions").BuiltinOptions
    types = import_module("ethosu.vela.tflite.TensorType").TensorType
    b = flatbuffers.Builder(1 << 16)
    buffers = [_table(b, "Buffer", {})]
    tensors: list[int] = []
    operators: list[int] = []
    inputs: list[int] = []
    outputs: list[int] = []
    codes = sorted({case["op"] for case in cases})

    def tensor(spec: dict[str, Any], name: str) -> int:
        fields: dict[str, Any] = {}
        if "data" in spec:
            dtype = np.dtype(TYPES[spec["type"]])
            data = np.resize(np.array(spec["data"]), spec["shape"]).astype(dtype)
            raw = _vector(b, "B", list(data.tobytes()))
            fields["Buffer"] = len(buffers)
            buffers.append(_table(b, "Buffer", {"Data": raw}))
        if "scale" in spec:
            scales = np.atleast_1d(spec["scale"]).tolist()
            zeros = [spec.get("zero", 0)] * len(scales)
            scale, zero = _vector(b, "f", scales), _vector(b, "q", zeros)
            fields["Quantization"] = _table(
                b, "QuantizationParameters", {"Scale": scale, "ZeroPoint": zero}
            )
        fields["Shape"] = _vector(b, "i", spec["shape"])
        fields["Name"] = b.CreateString(name)
        fields["Type"] = getattr(types, spec["type"])
        tensors.append(_table(b, "Tensor", fields))
        return len(tensors) - 1

    for number, case in enumerate(cases):
        ins = [tensor(spec, f"in_{number}_{i}") for i, spec in enumerate(case["inputs"])]
        outs = [tensor(spec, f"out_{number}_{i}") for i, spec in enumerate(case["outputs"])]
        inputs += [i for i, spec in zip(ins, case["inputs"], strict=True) if "data" not in spec]
        outputs += outs
        fields = {
            "Inputs": _vector(b, "i", ins),
            "Outputs": _vector(b, "i", outs),
            "OpcodeIndex": codes.index(case["op"]),
        }
        if case.get("options"):
            name, values = case["options"]
            fields["BuiltinOptions"] = _table(b, name, values)
            fields["BuiltinOptionsType"] = getattr(options_of, name)
        operators.append(_table(b, "Operator", fields))
    graph = {
        "Tensors": _vector(b, "offset", tensors),
        "Inputs": _vector(b, "i", inputs),
        "Outputs": _vector(b, "i", outputs),
        "Operators": _vector(b, "offset", operators),
        "Name": b.CreateString("main"),
    }
    graphs = _vector(b, "offset", [_table(b, "SubGraph", graph)])
    named = [
        _table(
            b,
            "OperatorCode",
            {
                "DeprecatedBuiltinCode": min(getattr(builtin, code), 127),
                "Version": 1,
                "BuiltinCode": getattr(builtin, code),
            },
        )
        for code in codes
    ]
    fields = {
        "OperatorCodes": _vector(b, "offset", named),
        "Subgraphs": graphs,
        "Buffers": _vector(b, "offset", buffers),
        "Description": b.CreateString("single operators"),
        "Version": 3,
    }
    b.Finish(_table(b, "Model", fields), file_identifier=b"TFL3")
    return bytes(b.Output())


def on_npu(cases: list[dict[str, Any]], accelerator: str) -> list[bool | None]:
    """Which operators are on the NPU in the file that Vela writes; None for an invalid one."""
    numbers = list(range(len(cases)))
    while numbers:
        left = _left([cases[n] for n in numbers], accelerator)
        if isinstance(left, set):
            placed = {n: f"out_{i}_0" not in left for i, n in enumerate(numbers)}
            return [placed.get(n) for n in range(len(cases))]
        del numbers[left]
    return [None] * len(cases)


def _left(cases: list[dict[str, Any]], accelerator: str) -> set[str] | int:
    """Names of the tensors that the processor computes, or the number of a case that is none."""
    Model = import_module("ethosu.vela.tflite.Model").Model
    builtin = import_module("ethosu.vela.tflite.BuiltinOperator").BuiltinOperator
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "ops.tflite"
        source.write_bytes(model_bytes(cases))
        command = [sys.executable, "-m", "ethosu.vela", str(source), "--output-dir", folder]
        command += ["--accelerator-config", accelerator]
        done = subprocess.run(command, capture_output=True, text=True)
        if invalid := re.search(r"'out_(\d+)_0' Does not have valid TFLite", done.stderr):
            return int(invalid[1])
        if done.returncode:
            raise SystemExit(done.stdout + done.stderr)
        model = Model.GetRootAs((Path(folder) / "ops_vela.tflite").read_bytes())
    graph = model.Subgraphs(0)
    left: set[str] = set()
    for index in range(graph.OperatorsLength()):
        op = graph.Operators(index)
        if model.OperatorCodes(op.OpcodeIndex()).BuiltinCode() == builtin.CUSTOM:
            continue
        outputs = (op.Outputs(number) for number in range(op.OutputsLength()))
        left.update(graph.Tensors(output).Name().decode() for output in outputs)
    return left


if __name__ == "__main__":
    print(json.dumps(on_npu(json.load(sys.stdin), sys.argv[1])))
