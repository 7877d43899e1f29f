"""Modules as TFLite files in LiteRT, beside the interpreter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from engine_support import Array, model

from qdialect.api import Model, run_passes
from qdialect.interpreter import Interpreter, random_inputs
from qdialect.plugins.common.exports import exports
from qdialect.plugins.tflite import target as litert
from qdialect.plugins.tflite.file.from_module import module_file
from qdialect.plugins.tflite.file.write import file_bytes
from tests.support.tflite_models import litert_ops, run_litert

CONVERT = "convert-nn-to-tflite,cse,dce"


def tflite_bytes(given: Model) -> bytes:
    """The file of a model that has only ops that TFLite has."""
    lowered = run_passes(given, CONVERT, target=litert.TARGET)
    return file_bytes(module_file(lowered.module, lowered.ctx))


def prepared(text: str) -> Model:
    """The module with floats between casts where TFLite has no integers."""
    return run_passes(model(text), exports()["tflite"].passes(codes=False), target=litert.TARGET)


def both(
    given: Model, samples: int = 4, seed: int = 0
) -> tuple[list[tuple[Array, Array]], Counter[str]]:
    """Results of the interpreter and of LiteRT for random inputs, some of them at the ends of their
    storage; and the ops of the file, `DELEGATE` for each part that XNNPACK runs."""
    data = tflite_bytes(given)
    interpreter = Interpreter(given.ctx, given.module)
    function = interpreter.function()
    pairs: list[tuple[Array, Array]] = []
    for n in range(samples):
        inputs = random_inputs(function, seed + n, boundary=n % 2 == 1)
        found: Sequence[Any] = run_litert(data, inputs)
        pairs += zip(interpreter.run(inputs), map(np.asarray, found), strict=True)
    return pairs, Counter(litert_ops(data))
