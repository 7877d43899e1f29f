"""Runs commands over small networks, as text and as JSON, and checks all figures.

    python -m tools.figures.corpus FOLDER [--only NAME ...] [--found DIR]

Files stay in FOLDER. `--found` has more models, `X.onnx` with its samples in `X.npz`.
"""

# pyright: basic
from __future__ import annotations

import argparse
import contextlib
import io
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from qdialect.cli.qopt import main as qopt
from tools.figures import check

OPTIMIZE = """
--numerics ties --inputs
--numerics relaxed --float --inputs
--numerics bounded --inputs
--form qoperator --inputs
--race 0
-o .mlir
-o .tflite""".splitlines()
QUANTIZE = """
--time 0
--weights-only all --time 0
--dynamic all --time 0
--activations u16 --time 0
--form qoperator --time 0
--keep-float auto=2 --time 0
--block 32 --weights i4 --time 0
--budget sqnr>=20 --best-effort
--target tosa -o .mlir
-o .tflite""".splitlines()
"""Flags, none first; `--inputs` and `--float` take a sample and the float model of the network."""


def run(
    command: str, source: Path, flags: str, folder: Path, data: Path | None, floats: Path | None
) -> int:
    """One command, twice; how many of the two have a figure that disagrees."""
    words, suffix, failed = flags.split(), ".onnx", 0
    if "-o" in words:
        suffix = words.pop(words.index("-o") + 1)
        words.remove("-o")
    out = (
        folder
        / source.stem
        / (command + "_".join(words).replace("=", "").replace(">", "") + suffix)
    )
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    given: dict[str, Path | None] = {"data": data if command == "quantize" else None}
    if "--inputs" in words:
        words.remove("--inputs")
        if data is None:
            return 0
        with np.load(data) as arrays:
            np.savez(out / "input.npz", **{name: a[:1] for name, a in arrays.items()})
        given["inputs"] = out / "input.npz"
    if "--float" in words:
        words.remove("--float")
        if floats is None:
            return 0
        given["float"] = floats
    names = {"data": "--data", "inputs": "-i", "float": "--float"}
    more = [text for key, path in given.items() if path for text in (names[key], str(path))]
    for kind in ("json", "text"):
        written, page, said = (out / f"{kind}{end}" for end in (suffix, ".html", ".said"))
        line = [command, str(source), "-o", str(written), *words, *more, "--report", str(page)]
        with (
            contextlib.redirect_stdout(io.StringIO()) as printed,
            contextlib.redirect_stderr(io.StringIO()) as errors,
        ):
            code = qopt([*line, *(["--json"] if kind == "json" else [])])
        said.write_text(printed.getvalue() if kind == "json" else errors.getvalue())
        title = f"{source.stem}: {command} {flags} ({kind})"
        if code:
            print(f"- {title}: {errors.getvalue().strip().splitlines()[:1]}", flush=True)
            break
        files = {**given, "said": said, "report": page, "facts": out / "json.said"}
        flat = [text for key, path in files.items() if path for text in (f"--{key}", str(path))]
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            try:
                code = check.main([str(source), str(written), *flat])
            except Exception as error:
                print(f"! {error!r}")
                code = 1
        wrong = [each for each in shown.getvalue().splitlines() if each.startswith("! ")]
        last = shown.getvalue().splitlines()[-1]
        print(f"{'!' if code else '='} {title}: {last}", *wrong, sep="\n    ", flush=True)
        failed += bool(code)
    return failed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all; 1 where some figure disagrees."""
    from tools.bench.corpus import CONFIGS, float_model, quantized_model, source_named

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=["ocr-cls", "alexa", "wake-word", "encoder"])
    parser.add_argument("--found", type=Path)
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    jobs: list[tuple[str, Path, Path | None, Path | None]] = []
    for name in options.only:
        source = source_named(name)
        plain, data = float_model(source), options.folder / f"{name}.npz"
        feeds = source.samples(24, 1)
        arrays: Any = {key: np.concatenate([f[key] for f in feeds]) for key in feeds[0]}
        np.savez(data, **arrays)
        jobs.append(("quantize", plain, data, None))
        for config in ("u8s8", "u8s8_qop", "s8s8_pc"):
            jobs.append(("optimize", quantized_model(source, CONFIGS[config]), data, plain))
    for path in sorted(options.found.glob("*.onnx")) if options.found else ():
        data = path.with_suffix(".npz")
        jobs.append(("optimize", path, None, None))
        if data.exists():
            jobs.append(("quantize", path, data, None))
    failed = 0
    for command, path, data, floats in jobs:
        for flags in QUANTIZE if command == "quantize" else OPTIMIZE:
            failed += run(command, path, flags, options.folder, data, floats)
    print(f"{failed} runs have figures that disagree")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
