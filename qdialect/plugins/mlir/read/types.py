"""Reads a tensor type without the parser if its element type was read before.

`tensor<1x8x16x16xT>` is fourteen tokens and more, and models repeat a few T. A quantized T with
a new scale, `!quant.uniform<i8:f32, 0.5:3>`, is read by the reader of quantized types alone.
"""

from __future__ import annotations

import re
from typing import Any, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, NoneAttr, TensorType
from xdsl.ir import Attribute, TypeAttribute

TENSOR = re.compile(
    r'tensor<(?:[^<>"-]|-(?!>))*(?:<(?:[^<>"-]|-(?!>))*(?:<[^<>"-]*>(?:[^<>"-]|-(?!>))*)*>)?>'
)
_SHAPE = re.compile(r"tensor<((?:(?:[1-9][0-9]{0,17}|\?)x)*)")
_UNIFORM = "!quant.uniform"


class TensorTypes:
    """The tensor types of one text that were read so far."""

    def __init__(self) -> None:
        #: by their text
        self.known: dict[str, TypeAttribute] = {}
        self._elements: dict[str, Attribute] = {}
        #: whether the text has a quantized type: only then `quant` is imported
        self._has_quantized = False

    def read(self, text: str) -> TypeAttribute | None:
        """The type of `text`, which matches `TENSOR`; None if the parser must read it."""
        kind = self.known.get(text)
        if kind is not None:
            return kind
        shape = _SHAPE.match(text)
        if shape is None:
            return None
        element_text = text[shape.end() : -1]
        element = self._elements.get(element_text)
        if element is None and self._has_quantized and element_text.startswith(_UNIFORM):
            element = _uniform(element_text[len(_UNIFORM) :])
        if element is None:
            return None
        extents = shape[1].split("x")[:-1]
        kind = TensorType(element, [DYNAMIC_INDEX if n == "?" else int(n) for n in extents])
        self.known[text] = kind
        return kind

    def learn(self, text: str, kind: TypeAttribute) -> None:
        """The parser has read `text` as `kind`."""
        self.known[text] = kind
        shape = _SHAPE.match(text)
        if shape is None or type(kind) is not TensorType:
            return
        tensor = cast("TensorType[Any]", kind)
        if type(tensor.encoding) is NoneAttr and shape[1].count("x") == tensor.get_num_dims():
            self._elements[text[shape.end() : -1]] = tensor.element_type
            self._has_quantized = self._has_quantized or tensor.element_type.name == "quant.uniform"


def _uniform(text: str) -> Attribute | None:
    from qdialect.ir.quant.read import read_plain
    from qdialect.ir.quant.types import UniformType

    qparams = read_plain(text)
    return None if qparams is None else UniformType(qparams)
