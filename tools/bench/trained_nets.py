"""Networks with trained weights that entered the comparison late: no rule was made on them.

They are modules of PyTorch (`torch_models.py`), written by its exporter: one makes vectors of
pictures (MobileNetV2), two say where a face is (RNet and ONet of MTCNN), one finds the pitch of
sound (a conformer).
"""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

import io
import tempfile
import warnings
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import onnx
from PIL import Image

from tools.bench import corpus, real_samples, samples
from tools.bench.corpus import Source
from tools.bench.material import GIVEN
from tools.bench.samples import Feeds, Sampler

OPSET = 17
"""The first with a layer norm."""
NAMES = ("mobilenetv2", "faces-rnet", "faces-onet", "fcpe")


def exported(name: str) -> onnx.ModelProto:
    """The network that `torch_models.py` calls `name`, as PyTorch writes its trace."""
    import torch

    from tools.bench.torch_models import NETS

    net = NETS[name]
    inputs = net.samples(1, 0)[0].inputs
    with tempfile.TemporaryDirectory() as temporary, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(temporary) / "net.onnx"
        module = net.module().eval()
        torch.onnx.export(
            module, inputs, path, dynamo=False, opset_version=OPSET, input_names=["x"]
        )
        return onnx.load(path)


@cache
def _lfw() -> np.ndarray:
    """Faces, then other things: [200, 25, 25] in [0, 1] (the subset of LFW in scikit-image)."""
    with zipfile.ZipFile(corpus.fetch_wheel(real_samples.SCIKIT_IMAGE)) as wheel:
        return np.load(io.BytesIO(wheel.read("skimage/data/lfw_subset.npy")))


def portraits(size: int) -> Sampler:
    """What the first stage of the detector finds, [1, 3, size, size] in -1 to 1: a face every other
    time, else a part of a scene.  Portraits are those of the part that is given."""

    def sample(count: int, seed: int) -> list[Feeds]:
        random, made = np.random.default_rng(seed), []
        part = GIVEN.get().part
        shown = _lfw()[:100][part::2] if part is not None else _lfw()[:100]
        for index in range(count):
            if index % 2:
                pixels = samples.scene(random, size)
            else:
                gray = shown[int(random.integers(len(shown)))] * 255
                picture = Image.fromarray(gray.astype(np.uint8)).convert("RGB")
                pixels = np.asarray(picture.resize((size, size)))
            planes = (pixels.astype(np.float32).transpose(2, 0, 1) - 127.5) / 128
            made.append({"x": np.ascontiguousarray(planes[None])})
        return made

    return sample


def _melodies(count: int, seed: int) -> list[Feeds]:
    from tools.bench.torch_models import NETS

    return [{"x": each.inputs[0].numpy()} for each in NETS["fcpe"].samples(count, seed)]


def source(name: str) -> Source:
    """One of `NAMES`."""
    of_torch = name.replace("faces-", "mtcnn-")
    sampler, task = {
        "mobilenetv2": (samples.images("x"), "embed"),
        "faces-rnet": (portraits(24), "classify"),
        "faces-onet": (portraits(48), "classify"),
        "fcpe": (_melodies, "classify"),  # no classes, and so no metric
    }[name]
    return Source(name, lambda: exported(of_torch), {}, sampler, task=task)
