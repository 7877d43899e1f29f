"""The layout of `.qmod` files: a module as tables and numbers, to pass between our tools.

    offset  bytes  what
    0       8      MAGIC
    8       4      VERSION, like all numbers unsigned and little-endian
    12      16     BLAKE2b of all that follows
    28      8 x 3  lengths in bytes of the three parts that follow
    52             tables: JSON, UTF-8
                   numbers: the ops, four bytes each
                   data: the values of dense attributes

The tables are lists: `strings`; `attributes`, each one a string (a string attribute),
`["t", text]` (a type), `["a", text]` (an attribute as MLIR writes it), `["l", text]` (a
location), `["d", type, offset, length]` (a dense attribute, its values in the data),
`["s", type, extent, ..]` (a tensor type of elements of a type; -1 is an extent not known) or
`["q", type, scale, zero point]` (a quantized type, else like another, per tensor); and
`dictionaries`, each `[name, attribute, name, attribute, ..]` of numbers in these two.

The numbers are the module op. An op is

    name, dictionary of properties,
    n, n times (name, attribute),
    location,
    n, n operands,
    n, n results, each (type, name or 0),
    n, n successors, as blocks of the region around,
    n, n regions, each (b, b times (name or 0, n, n arguments, each (type, name or 0, location)),
                        b times (n, n ops))

where strings and attributes are numbers in the tables, names of values and blocks one more,
and values are numbered as they are complete: the arguments of a region, then its ops, the
results of an op after what is in it. A location is 0 (unknown), 1 and (file, line, column),
or 2 and an attribute. Weights are references, as in text: their store is beside the file.

A reader takes files of its own VERSION only: text is for keeping.
"""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType
from xdsl.ir import Attribute

MAGIC = b"\x89QMOD\r\n\x1a"
VERSION = 2
SUFFIX = ".qmod"
HEADER = "<8sI16sQQQ"


def checksum(parts: bytes | memoryview) -> bytes:
    """The checksum of all behind it."""
    from hashlib import blake2b

    return blake2b(parts, digest_size=16).digest()


def is_element(kind: Attribute) -> bool:
    """Whether tensors of such elements have an entry of their own, not a text."""
    return isinstance(kind, AnyFloat | IntegerType | IndexType) or kind.name == "quant.uniform"
