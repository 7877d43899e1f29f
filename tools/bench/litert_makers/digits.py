"""Small networks of PyTorch trained on the digits of scikit-learn, for converters to convert.

A program of its own, in an environment with torch and scikit-learn: `python digits.py FOLDER
[NAME...]` writes FOLDER/NAME/float.pt2 and samples.npz (`c0_0`: calibration sample 0, input 0;
`t0_0`: test sample 0; `labels`).  Weights are trained from a seed, so that ranges are those of a
trained network; pixels are in [0, 1].
"""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

CALIBRATION, TESTS = 64, 64


class Mobile(nn.Module):
    """Depthwise convolutions, ReLU6 and hard-swish, as in small mobile networks."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 16, 3, padding=1)
        self.deep = nn.Conv2d(16, 16, 3, padding=1, stride=2, groups=16)
        self.wide = nn.Conv2d(16, 32, 1)
        self.deep2 = nn.Conv2d(32, 32, 3, padding=1, groups=32)
        self.wide2 = nn.Conv2d(32, 32, 1)
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        x = F.relu6(self.stem(x))
        x = F.relu6(self.deep(x))
        x = F.hardswish(self.wide(x))
        x = x + F.hardswish(self.wide2(F.relu(self.deep2(x))))
        return F.softmax(self.head(F.adaptive_avg_pool2d(x, 1).flatten(1)), -1)


class Residual(nn.Module):
    """Leaky ReLUs, a sum, a concatenation, max pooling and an interpolation."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(1, 12, 3, padding=1)
        self.b = nn.Conv2d(12, 12, 3, padding=1)
        self.c = nn.Conv2d(12, 12, 3, padding=1)
        self.d = nn.Conv2d(24, 16, 3, stride=2, padding=1)
        self.head = nn.Linear(16 * 16, 10)

    def forward(self, x):
        x = F.leaky_relu(self.a(x), 0.1)
        y = x + F.leaky_relu(self.b(x), 0.1)
        z = F.interpolate(F.max_pool2d(self.c(y), 2), scale_factor=2.0, mode="bilinear")
        x = F.leaky_relu(self.d(torch.cat((y, z), 1)), 0.1)
        return self.head(x.flatten(1))


class Gates(nn.Module):
    """PReLU, SiLU, a squeeze-and-excite gate, tanh and a transposed convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.p = nn.Conv2d(1, 16, 3, padding=1, stride=2), nn.PReLU(16)
        self.s1, self.s2 = nn.Conv2d(16, 4, 1), nn.Conv2d(4, 16, 1)
        self.up = nn.ConvTranspose2d(16, 8, 4, stride=2, padding=1)
        self.b = nn.Conv2d(8, 8, 3, padding=1, groups=2)
        self.head = nn.Linear(8 * 64, 10)

    def forward(self, x):
        x = self.p(self.a(x))
        gate = torch.sigmoid(self.s2(F.silu(self.s1(x.mean((2, 3), keepdim=True)))))
        x = torch.tanh(self.up(x * gate))
        return self.head(F.gelu(self.b(x)).flatten(1))


class Dense(nn.Module):
    """Products with norms between, over all pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(64, 96), nn.Linear(96, 96), nn.Linear(96, 10)
        self.norm = nn.LayerNorm(96)

    def forward(self, x):
        x = F.relu(self.a(x.flatten(1)))
        return self.c(self.norm(x + F.gelu(self.b(x))))


class Rows(nn.Module):
    """Attention over the eight rows of a picture."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.qkv, self.out = nn.Linear(8, 32), nn.Linear(32, 96), nn.Linear(32, 32)
        self.norm, self.last = nn.LayerNorm(32), nn.LayerNorm(32)
        self.wide, self.narrow = nn.Linear(32, 96), nn.Linear(96, 32)
        self.place = nn.Parameter(0.1 * torch.randn(8, 32))
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        x = self.into(x[:, 0]) + self.place
        q, k, v = (
            y.unflatten(-1, (4, 8)).transpose(1, 2) for y in self.qkv(self.norm(x)).chunk(3, -1)
        )
        y = F.softmax(q @ k.transpose(-1, -2) / 8**0.5, -1) @ v
        x = x + self.out(y.transpose(1, 2).flatten(2))
        x = x + self.narrow(F.gelu(self.wide(self.last(x))))
        return self.head(x.mean(1))


NETS = {
    "digits-mobile": Mobile,
    "digits-residual": Residual,
    "digits-gates": Gates,
    "digits-dense": Dense,
    "digits-rows": Rows,
}


def data() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Pictures and labels, to train on and to test on."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.images))
    images = torch.tensor(digits.images[order, None] / 16, dtype=torch.float32)
    labels = torch.tensor(digits.target[order])
    return images[:1400], labels[:1400], images[1400:], labels[1400:]


def trained(name: str, steps: int = 600) -> nn.Module:
    """One of `NETS`, trained from seed 0."""
    torch.manual_seed(0)
    net = NETS[name]()
    images, labels, _, _ = data()
    adam = torch.optim.Adam(net.parameters(), 3e-3)
    softmax = name == "digits-mobile"
    for _ in range(steps):
        part = torch.randint(0, len(images), (64,))
        found = net(images[part])
        loss = (
            F.nll_loss(torch.log(found + 1e-9), labels[part])
            if softmax
            else F.cross_entropy(found, labels[part])
        )
        adam.zero_grad()
        loss.backward()
        adam.step()
    return net.eval()


def main() -> None:
    """Write what is asked for."""
    folder, *names = sys.argv[1:]
    torch.set_num_threads(1)
    train, _, test, labels = data()
    for name in names or NETS:
        net = trained(name)
        with torch.no_grad():
            right = (net(test).argmax(-1) == labels).float().mean()
        print(f"{name}: {right:.3f} right", file=sys.stderr)
        place = Path(folder) / name
        place.mkdir(parents=True, exist_ok=True)
        program = torch.export.export(net, (test[:1],))
        torch.export.save(program, place / "float.pt2")
        stored: dict[str, Any] = {f"c{i}_0": train[i : i + 1].numpy() for i in range(CALIBRATION)}
        stored |= {f"t{i}_0": test[i : i + 1].numpy() for i in range(TESTS)}
        np.savez(place / "samples.npz", labels=labels[:TESTS].numpy(), **stored)


if __name__ == "__main__":
    main()
