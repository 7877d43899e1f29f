"""Files of litert-torch and of its quantizers, made of exported programs.

A program of its own, in an environment with litert-torch and ai-edge-quantizer:
`python of_torch.py FOLDER/NAME [TOOL...]` reads float.pt2 and samples.npz there and writes
TOOL.tflite, and TOOL.json with seconds or why there is none.  With `float.tflite` in place of a
program (a file of other origin), its inputs are drawn at random between its samples' ends.
"""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

RECIPES = {
    "aeq-s8": "static_wi8_ai8",
    "aeq-s16": "static_wi8_ai16",
    "aeq-dynamic8": "dynamic_wi8_afp32",
    "aeq-dynamic4": "dynamic_wi4_afp32",
    "aeq-blocks4": "dynamic_wi4b32_afp32",
    "aeq-weights8": "weight_only_wi8_afp32",
    "aeq-weights4": "weight_only_wi4_afp32",
}
TOOLS = ("litert-torch", "litert-torch-nhwc", *RECIPES, "pt2e", "onnx")
"""What can be made; `aeq-*` are made of litert-torch's file, in channels-last where that works."""


def samples(place: Path, kind: str) -> list[tuple[np.ndarray, ...]]:
    """Samples of a kind (`c` to calibrate, `t` to test), each a tuple of inputs."""
    stored = np.load(place / "samples.npz")
    found: dict[int, dict[int, np.ndarray]] = {}
    for key in stored.files:
        if key[0] == kind and "_" in key:
            sample, port = key[1:].split("_")
            found.setdefault(int(sample), {})[int(port)] = stored[key]
    return [tuple(found[i][j] for j in sorted(found[i])) for i in sorted(found)]


def _module(place: Path) -> tuple[Any, tuple[Any, ...]]:
    import torch

    inputs = tuple(map(torch.from_numpy, samples(place, "c")[0]))
    return torch.export.load(place / "float.pt2").module(), inputs


def _convert(place: Path, path: Path, last: bool) -> None:
    import litert_torch

    module, inputs = _module(place)
    if last:
        if inputs[0].ndim != 4:
            raise ValueError("its input has no channels of a picture")
        module = litert_torch.to_channel_last_io(module, args=[0])
        inputs = (inputs[0].permute(0, 2, 3, 1).contiguous(), *inputs[1:])
    litert_torch.convert(module, inputs).export(str(path))


def _fed(model: Path, place: Path) -> dict[str, list[dict[str, np.ndarray]]]:
    """Calibration samples as a file's signature names them; transposed where it asks so."""
    from ai_edge_litert.interpreter import Interpreter

    engine = Interpreter(str(model))
    key = next(iter(engine.get_signature_list()), None)
    if key is None:
        raise ValueError("the file has no signature")
    runner = engine.get_signature_runner(key)
    details = runner.get_input_details()
    names = sorted(details, key=lambda name: details[name]["index"])
    if (place / "samples.npz").exists():
        given = samples(place, "c")
    else:
        random = np.random.default_rng(0)
        given = [
            tuple(random.uniform(0, 1, details[n]["shape"]).astype(np.float32) for n in names)
            for _ in range(8)
        ]
    fed = []
    for sample in given:
        row = {}
        for name, value in zip(names, sample, strict=True):
            shape = tuple(details[name]["shape"])
            if value.shape != shape and value.ndim == 4:
                value = value.transpose(0, 2, 3, 1)
            row[name] = np.ascontiguousarray(value, dtype=details[name]["dtype"])
        fed.append(row)
    return {key: fed}


def _recipe(place: Path, path: Path, name: str) -> None:
    from ai_edge_quantizer import quantizer, recipe

    found = ("litert-torch-nhwc.tflite", "litert-torch.tflite", "float.tflite")
    model = next(place / file for file in found if (place / file).exists())
    made = quantizer.Quantizer(str(model), getattr(recipe, name)())
    calibrated = made.calibrate(_fed(model, place)) if name.startswith("static") else None
    made.quantize(calibrated).export_model(str(path), overwrite=True)


def _pt2e(place: Path, path: Path) -> None:
    import litert_torch
    import torch
    from litert_torch.quantize import pt2e_quantizer as pt2e
    from litert_torch.quantize.quant_config import QuantConfig
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    module, inputs = _module(place)
    quantizer = pt2e.PT2EQuantizer().set_global(
        pt2e.get_symmetric_quantization_config(is_per_channel=True, is_dynamic=False)
    )
    prepared = prepare_pt2e(torch.export.export(module, inputs).module(), quantizer)
    with torch.no_grad():
        for sample in samples(place, "c"):
            prepared(*map(torch.from_numpy, sample))
    converted = convert_pt2e(prepared, fold_quantize=False)
    config = QuantConfig(pt2e_quantizer=quantizer)
    litert_torch.convert(converted, inputs, quant_config=config).export(str(path))


def _onnx(place: Path, path: Path) -> None:
    import torch

    module, inputs = _module(place)
    torch.onnx.export(module, inputs, str(place / "float.onnx"), dynamo=True, external_data=False)
    path.with_suffix(".tflite").unlink(missing_ok=True)


def maker(tool: str) -> Callable[[Path, Path], None]:
    """What makes a file of that name."""
    if tool in RECIPES:
        return lambda place, path: _recipe(place, path, RECIPES[tool])
    return {
        "litert-torch": lambda place, path: _convert(place, path, False),
        "litert-torch-nhwc": lambda place, path: _convert(place, path, True),
        "pt2e": _pt2e,
        "onnx": _onnx,
    }[tool]


def main() -> None:
    """Make what is asked for; what a tool refuses is written down."""
    place, tools = Path(sys.argv[1]), sys.argv[2:] or TOOLS
    warnings.simplefilter("ignore")
    for tool in tools:
        start, why = time.perf_counter(), ""
        path = place / f"{tool}.tflite"
        try:
            maker(tool)(place, path)
        except BaseException as error:  # whatever it does
            path.unlink(missing_ok=True)
            why = f"{type(error).__name__}: {error}".strip()[:300]
        seconds = round(time.perf_counter() - start, 2)
        path.with_suffix(".json").write_text(json.dumps({"seconds": seconds, "why": why}))
        print(f"{place.name} {tool} {seconds} s {why[:160]}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
