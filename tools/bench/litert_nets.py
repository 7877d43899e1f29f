"""Float networks as peers' converters and ours take them: a folder for each, with samples.

FOLDER/NAME has `float.pt2` (networks of PyTorch) or `float.onnx` (of ONNX), and `samples.npz`:
`c0_1` is input 1 of calibration sample 0, `t0_1` of a test sample, in the network's own layout;
`names` are the inputs' names in an ONNX file.  `litert_makers` add files of other tools to it.

    python -m tools.bench.litert_nets FOLDER --nets mobilenetv2 ocr-cls
"""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.tables import step
from tools.bench import unseen

TORCH = (
    *("mobilenetv2", "mtcnn-rnet", "mtcnn-onet", "crepe-tiny", "fcpe", "silero-vad"),
    *("resemblyzer", "minilm"),
)
ONNX = (
    *("ocr-cls", "ocr-det", "ocr-rec", "wake-word", "alexa", "magika", "squeezenet", "resnet50"),
    *("ddddocr",),
)
CALIBRATION, TESTS = 32, 32


def write_torch(name: str, place: Path, calibration: int = CALIBRATION, tests: int = TESTS) -> None:
    """A network of `torch_models`, exported, with its samples and their labels."""
    import torch

    from tools.bench.torch_models import NETS

    net = NETS[name]
    fit, judged = net.samples(calibration, 1), net.samples(tests, 2)
    program = torch.export.export(net.module().eval(), fit[0].inputs)
    torch.export.save(program, place / "float.pt2")
    stored: dict[str, Any] = {
        f"{kind}{i}_{j}": np.ascontiguousarray(tensor.numpy())
        for kind, found in (("c", fit), ("t", judged))
        for i, sample in enumerate(found)
        for j, tensor in enumerate(sample.inputs)
    }
    np.savez(place / "samples.npz", **stored)


def write_onnx(name: str, place: Path, calibration: int = CALIBRATION, tests: int = TESTS) -> None:
    """A network of the corpus, as the corpus prepares it."""
    source = unseen.unseen(name)
    shutil.copyfile(unseen.float_model(source), place / "float.onnx")
    fit, judged = source.samples(calibration, 1), source.samples(tests, unseen.TOKENS + 1)
    stored: dict[str, Any] = {
        f"{kind}{i}_{j}": value
        for kind, found in (("c", fit), ("t", judged))
        for i, feeds in enumerate(found)
        for j, value in enumerate(feeds.values())
    }
    np.savez(place / "samples.npz", names=np.array(list(fit[0])), **stored)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write folders; 1 if a network could not be made."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nets", nargs="+", choices=(*TORCH, *ONNX), default=[*TORCH, *ONNX])
    options = parser.parse_args(arguments)
    failed = 0
    for name in options.nets:
        place = options.folder / name
        if (place / "samples.npz").exists():
            continue
        place.mkdir(parents=True, exist_ok=True)
        with step(name):
            try:
                (write_torch if name in TORCH else write_onnx)(name, place)
            except Exception as error:  # a wheel that is not to be had, say
                failed += 1
                print(f"{name}: {error}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
