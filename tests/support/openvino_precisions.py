"""In which precisions OpenVINO's CPU plugin executes the layers of ONNX files.

Run by the interpreter that OpenVINO is installed for: `python openvino_precisions.py FILE ...`
prints for each file a list of pairs: the type of a layer and what it computes on (`U8`, `f32`).
"""

# pyright: basic
from __future__ import annotations

import json
import sys


def precisions(path: str) -> list[tuple[str, str]]:
    """Type and precision of each layer that is executed."""
    import openvino  # pyright: ignore[reportMissingImports]

    compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found: list[tuple[str, str]] = []
    for op in compiled.get_runtime_model().get_ops():
        info = op.get_rt_info()
        kind, precision = (
            str(info[k].value if hasattr(info[k], "value") else info[k])
            for k in ("layerType", "runtimePrecision")
        )
        found.append((kind, precision))
    return found


if __name__ == "__main__":
    print(json.dumps([precisions(path) for path in sys.argv[1:]]))
