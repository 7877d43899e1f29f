"""The reference interpreter: what a quantized graph computes, exactly.

A quantized op dequantizes its operands exactly, applies the op in real arithmetic
and stores the result with its declared rounding and saturation. Casts and ops
that stay float are evaluated in their float type, as ONNX defines them.
"""

from qdialect.interpreter.compare import Difference, compare, compare_all
from qdialect.interpreter.inputs import random_inputs
from qdialect.interpreter.kernels import DEFAULT_KERNELS
from qdialect.interpreter.machine import (
    Interpreter,
    Listener,
    argument_names,
    evaluate_op,
    output_names,
)
from qdialect.interpreter.values import Evaluation, Floats, Kernel

__all__ = [
    "DEFAULT_KERNELS",
    "Difference",
    "Evaluation",
    "Floats",
    "Interpreter",
    "Kernel",
    "Listener",
    "argument_names",
    "compare",
    "compare_all",
    "evaluate_op",
    "output_names",
    "random_inputs",
]
