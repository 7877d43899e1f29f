"""Random graphs of casts, rescales and ops, and comparisons that do not see op order."""

from __future__ import annotations

import random

import numpy as np
from families import GRID, ROUNDINGS, cast_rounding, rounding
from rewrite_support import Program, tensor

SHAPE = (2, 2, 4, 4)
FEW = GRID[:6]


class GraphBuilder:
    """Grows a program op by op; values are kept with their element type and shape."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.program = Program(f"graph {seed}")
        self.values: list[tuple[str, str, tuple[int, ...]]] = []
        generator = np.random.default_rng(seed)
        for q in self.random.sample(FEW, 2):
            codes = generator.integers(-128, 128, SHAPE)
            self.values.append((self.program.codes(q, codes), q, SHAPE))

    def grow(self, ops: int) -> Program:
        for _ in range(ops):
            value = self.random.choice(
                self.values[-4:] if self.random.random() < 0.7 else self.values
            )
            self.values.append(self._op(*value))
        used = self.values[-1:] + self.random.sample(self.values, 2)
        for name, element, shape in used:
            self.program.returns(name, tensor(shape, element))
        return self.program

    def _op(self, x: str, element: str, shape: tuple[int, ...]) -> tuple[str, str, tuple[int, ...]]:
        p, pick = self.program, self.random.choice
        kind = tensor(shape, element)
        choice = self.random.random()
        if choice < 0.35:
            to = pick(FEW)
            if element == "f32":
                how = cast_rounding(pick(["half_even", *ROUNDINGS]))
                return p.op(f"quant.qcast {x} {how}", kind, tensor(shape, to)), to, shape
            if self.random.random() < 0.5:
                return p.op(f"quant.dcast {x}", kind, tensor(shape, "f32")), "f32", shape
            how = rounding(pick(["half_even", *ROUNDINGS]))
            return p.op(f"quant.rescale {x} {how}", kind, tensor(shape, to)), to, shape
        if choice < 0.6:
            text, out = pick(
                [
                    ("relu %x", shape),
                    ("clip %x min 0.0 max 6.0", shape),
                    ("clip %x min -0.7", shape),
                    ("transpose %x perm [0, 1, 3, 2]", (*shape[:2], shape[3], shape[2])),
                    ("transpose %x perm [0, 1, 2, 3]", shape),
                    ("reduce_max %x axes [3]", (*shape[:3], 1)),
                    ("reshape %x", (shape[1], shape[0], *shape[2:])),
                ]
            )
            return p.nn(text.replace("%x", x), [kind], tensor(out, element)), element, out
        result = element if element == "f32" else pick(FEW)
        others = [v for v in self.values if v[2] == shape and (v[1] == "f32") == (element == "f32")]
        y, other, _ = pick(others)
        if choice < 0.7:
            name = p.nn(f"{pick(['sigmoid', 'tanh'])} {x}", [kind], tensor(shape, result))
            return name, result, shape
        if choice < 0.8 and (other == element):
            out = (shape[0], 2 * shape[1], *shape[2:])
            kinds = [kind, tensor(shape, other)]
            return p.nn(f"concat {x}, {y} axis 1", kinds, tensor(out, element)), element, out
        kinds = [kind, tensor(shape, other)]
        if choice < 0.87 and other == element:
            return p.nn(f"{pick(['maximum', 'minimum'])} {x}, {y}", kinds, kind), element, shape
        name = p.nn(f"{pick(['add', 'sub', 'mul'])} {x}, {y}", kinds, tensor(shape, result))
        return name, result, shape


def random_graph(seed: int, ops: int = 24) -> Program:
    return GraphBuilder(seed).grow(ops)
