"""Files of onnx2tf, made of ONNX files.

A program of its own, in an environment with onnx2tf: `python of_onnx.py FOLDER/NAME [TOOL...]`
reads float.onnx there and writes onnx2tf.tflite (floats) and onnx2tf-s8.tflite (TensorFlow's
converter, quantized after training on the samples), and TOOL.json with seconds or why none.
"""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

PICTURES = "calibration_image_sample_data_20x128x128x3_float32.npy"
"""Of the working directory: where it is there, the tool looks for none elsewhere."""
TOOLS = ("onnx2tf", "onnx2tf-s8")


def _calibration(place: Path, folder: Path) -> list[str]:
    """Arguments that name calibration samples: pictures of one input, in channels-last."""
    stored = np.load(place / "samples.npz")
    keys = sorted(key for key in stored.files if key[0] == "c" and key.endswith("_0"))
    ports = {key.split("_")[1] for key in stored.files if key[0] == "c" and "_" in key}
    if len(ports) > 1:
        raise ValueError("samples of one input only")
    rows = np.concatenate([stored[key] for key in keys])
    if rows.ndim == 4:
        rows = rows.transpose(0, 2, 3, 1)
    np.save(folder / "samples.npy", rows)
    import onnx

    name = onnx.load(place / "float.onnx", load_external_data=False).graph.input[0].name
    shape = [1] * (rows.ndim - 1) + [rows.shape[-1]] if rows.ndim == 4 else [1] * rows.ndim
    zeros, ones = (str(np.full(shape, v).tolist()).replace(" ", "") for v in (0.0, 1.0))
    return ["-cind", name, str(folder / "samples.npy"), zeros, ones]


def make(place: Path, tool: str, path: Path) -> None:
    """One file; RuntimeError with the tool's last words."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copyfile(place / "float.onnx", folder / "float.onnx")
        pictures = np.random.default_rng(0).uniform(0, 1, (20, 128, 128, 3))
        np.save(folder / PICTURES, pictures.astype(np.float32))
        command = [sys.executable, "-P", "-m", "onnx2tf", "-i", "float.onnx", "-o", "out", "-n"]
        if tool == "onnx2tf-s8":
            command += ["-oiqt", "-qt", "per-channel", *_calibration(place, folder)]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=600, check=False
        )
        end = "_full_integer_quant.tflite" if tool == "onnx2tf-s8" else "_float32.tflite"
        made = sorted((folder / "out").glob("*" + end)) if (folder / "out").exists() else []
        if not made:
            said = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr).splitlines()
            found = [line for line in said if "ERROR:" in line and "model" not in line.lower()]
            errors = [line for line in said if re.match(r"\w*(Error|Exception): ", line)]
            last = (errors or found or said or ["it says nothing"])[-1]
            raise RuntimeError(last[:300])
        shutil.copyfile(made[0], path)


def main() -> None:
    """Make what is asked for; what the tool refuses is written down."""
    os.environ |= {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    place, tools = Path(sys.argv[1]), sys.argv[2:] or TOOLS
    for tool in tools:
        start, why = time.perf_counter(), ""
        path = place / f"{tool}.tflite"
        try:
            make(place, tool, path)
        except BaseException as error:  # whatever it does
            path.unlink(missing_ok=True)
            why = f"{type(error).__name__}: {error}".strip()[:300]
        seconds = round(time.perf_counter() - start, 2)
        path.with_suffix(".json").write_text(json.dumps({"seconds": seconds, "why": why}))
        print(f"{place.name} {tool} {seconds} s {why[:200]}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
