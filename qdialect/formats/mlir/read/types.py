"""Tensor types whose element type was read before are read without the parser.

`tensor<1x8x16x16xT>` is fourteen tokens and more; models repeat a few T, and where T is a
quantized type with a scale of its own, it is one of a few forms.
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
    """What is known of the tensor types of one text."""

    def __init__(self) -> None:
        #: by how they are written
        self.known: dict[str, TypeAttribute] = {}
        self._elements: dict[str, Attribute] = {}
        self._quantized = False

    def read(self, text: str) -> TypeAttribute | None:
        """The type written as `text`, which matches `TENSOR`; None leaves it to the parser."""
        kind = self.known.get(text)
        if kind is not None:
            return kind
        shape = _SHAPE.match(text)
        if shape is None:
            return None
        written = text[shape.end() : -1]
        element = self._elements.get(written)
        if element is None and self._quantized and written.startswith(_UNIFORM):
            element = _uniform(written[len(_UNIFORM) :])
        if element is None:
            return None
        extents = shape[1].split("x")[:-1]
        kind = TensorType(element, [DYNAMIC_INDEX if n == "?" else int(n) for n in extents])
        self.known[text] = kind
        return kind

    def learn(self, text: str, kind: TypeAttribute) -> None:
        """The parser has read `kind` where `text` is."""
        self.known[text] = kind
        shape = _SHAPE.match(text)
        if shape is None or type(kind) is not TensorType:
            return
        tensor = cast("TensorType[Any]", kind)
        if type(tensor.encoding) is NoneAttr and shape[1].count("x") == tensor.get_num_dims():
            self._elements[text[shape.end() : -1]] = tensor.element_type
            self._quantized = self._quantized or tensor.element_type.name == "quant.uniform"


def _uniform(text: str) -> Attribute | None:
    from qdialect.quant.read import read_plain
    from qdialect.quant.types import UniformType

    qparams = read_plain(text)
    return None if qparams is None else UniformType(qparams)
