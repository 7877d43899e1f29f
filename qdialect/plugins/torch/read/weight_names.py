"""What weights of a converted program are called.

`convert_pt2e` moves quantized weights to the outermost module, as `_frozen_param0`.  Users know
the module that reads them:

    dequantize_per_channel(_frozen_param0, ...) -> conv2d in features.0     features.0.weight
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from qdialect.plugins.torch.program import Program
from qdialect.plugins.torch.read.rows import tensors

_FROZEN = re.compile(r"_frozen_param\d+")


def weight_names(program: Program) -> Mapping[str, str]:
    """Names by those in the graph, of frozen weights that one module reads; each name once."""
    frozen = {
        entry.name
        for entry in program.inputs
        if isinstance(entry.target, str) and _FROZEN.fullmatch(entry.target)
    }
    found: dict[str, set[str]] = {}
    #: what is dequantized of a weight, by the name of the result
    origin: dict[str, str] = {}
    for node in program.graph.nodes:
        for name in tensors(node):
            if name in frozen:
                origin |= {result: name for result in node.results if isinstance(result, str)}
            elif name in origin and node.module:
                found.setdefault(origin[name], set()).add(f"{node.module}.weight")
    single = {name: paths.pop() for name, paths in found.items() if len(paths) == 1}
    read = {name for node in program.graph.nodes for name in tensors(node)}
    taken = {str(entry.target) for entry in program.inputs if entry.name in read}
    paths = list(single.values())
    return {n: p for n, p in single.items() if paths.count(p) == 1 and p not in taken}
