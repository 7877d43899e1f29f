"""Circle files of TICO, made of exported programs.

A program of its own, in an environment with tico: `python of_tico.py FOLDER/NAME [TOOL...]` reads
float.pt2 and samples.npz there and writes tico.circle (floats), tico-ptq.circle (its own
quantizer) and tico-pt2e.circle (of what torchao quantized), and TOOL.json with seconds or why there
is none.
"""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

import json
import sys
import time
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np
import torch


def _samples(place: Path) -> list[tuple[torch.Tensor, ...]]:
    stored = np.load(place / "samples.npz")
    found: dict[int, dict[int, torch.Tensor]] = {}
    for key in stored.files:
        if key[0] == "c":
            sample, port = key[1:].split("_")
            found.setdefault(int(sample), {})[int(port)] = torch.from_numpy(stored[key])
    return [tuple(found[i][j] for j in sorted(found[i])) for i in sorted(found)]


def _float(place: Path) -> bytes:
    tico = import_module("tico")

    module = torch.export.load(place / "float.pt2").module()
    return tico.convert(module, _samples(place)[0]).circle_binary


def _own(place: Path) -> bytes:
    """By TICO's own quantizer, which leaves in floats what it has no wrapper for."""
    tico = import_module("tico")
    from tico.quantization import convert, prepare
    from tico.quantization.config.ptq import PTQConfig

    samples = _samples(place)
    module = torch.export.load(place / "float.pt2").module()
    prepared = prepare(module, PTQConfig(strict_wrap=False))
    with torch.no_grad():
        for sample in samples:
            prepared(*sample)
        program = torch.export.export(convert(prepared), samples[0])
    return tico.convert_from_exported_program(program).circle_binary


def _pt2e(place: Path) -> bytes:
    """Of a program that torchao's quantizer for x86 made: TICO refuses the narrow range of weights
    that the one for XNNPACK chooses."""
    tico = import_module("tico")
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    samples = _samples(place)
    module = torch.export.load(place / "float.pt2").module()
    quantizer = x86.X86InductorQuantizer().set_global(
        x86.get_default_x86_inductor_quantization_config()
    )
    prepared = prepare_pt2e(torch.export.export(module, samples[0]).module(), quantizer)
    with torch.no_grad():
        for sample in samples:
            prepared(*sample)
    program = torch.export.export(convert_pt2e(prepared), samples[0])
    return tico.convert_from_exported_program(program).circle_binary


MAKERS = {"tico": _float, "tico-ptq": _own, "tico-pt2e": _pt2e}


def main() -> None:
    """Make what is asked for; what the tool refuses is written down."""
    place, tools = Path(sys.argv[1]), sys.argv[2:] or list(MAKERS)
    warnings.simplefilter("ignore")
    for tool in tools:
        start, why = time.perf_counter(), ""
        path = place / f"{tool}.circle"
        try:
            path.write_bytes(MAKERS[tool](place))
        except BaseException as error:  # whatever it does
            path.unlink(missing_ok=True)
            why = f"{type(error).__name__}: {error}".strip()[:300]
        seconds = round(time.perf_counter() - start, 2)
        path.with_suffix(".json").write_text(json.dumps({"seconds": seconds, "why": why}))
        print(f"{place.name} {tool} {seconds} s {why[:160]}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
