"""The numbers of the MLIR bytecode format: magic, versions, sections, masks, kinds of entries.

A file is the magic, a version, a producer and sections:

    4D 4C EF 52                     "ML\\xefR"
    version                         a number (see `cursor`)
    producer                        bytes up to a zero
    id, length, contents            once for each section; with bit 7 of the id set an alignment
                                    and padding (0xCB) stand between length and contents

The format is described at https://mlir.llvm.org/docs/BytecodeFormat/; what that page leaves out
(kinds of attributes, properties) was taken from files that mlir-opt 22 wrote.
"""

from __future__ import annotations

from enum import IntEnum

MAGIC = b"ML\xefR"
SUFFIX = ".mlirbc"
PADDING = 0xCB

NEWEST = 6
"""The newest version, that of MLIR 22 and 24."""
WRITTEN = 4
"""The version written unless another is asked for: the last one in which properties of ops
are an attribute dictionary, which needs no knowledge of the ops."""

DIALECT_VERSIONS = 1
"""From this version on a dialect may say its own version."""
LAZY_REGIONS = 2
"""From this version on the regions of isolated ops are sections of their own."""
USE_ORDERS = 3
"""From this version on orders of uses are stored."""
UNKNOWN_LOCATIONS_ELIDED = 4
"""From this version on arguments of blocks need no location, and op names are counted."""
NATIVE_PROPERTIES = 5
"""From this version on properties are encoded op by op."""
NATIVE_SEGMENTS = 6
"""From this version on sizes of operand and result groups are arrays of numbers."""


class Section(IntEnum):
    """What a section holds."""

    STRINGS = 0
    DIALECTS = 1
    ATTRIBUTES = 2
    ATTRIBUTE_OFFSETS = 3
    IR = 4
    RESOURCES = 5
    RESOURCE_OFFSETS = 6
    DIALECT_VERSION = 7
    PROPERTIES = 8


class Has(IntEnum):
    """Which parts an op has: bits of its mask."""

    ATTRIBUTES = 1
    RESULTS = 2
    OPERANDS = 4
    SUCCESSORS = 8
    REGIONS = 16
    USE_ORDERS = 32
    PROPERTIES = 64


class ResourceKind(IntEnum):
    """What the value of a resource is."""

    BLOB = 0
    BOOL = 1
    STRING = 2


class Attr(IntEnum):
    """The attributes that the builtin dialect encodes itself."""

    ARRAY = 0
    DICTIONARY = 1
    STRING = 2
    TYPED_STRING = 3
    FLAT_SYMBOL = 4
    SYMBOL = 5
    TYPE = 6
    UNIT = 7
    INTEGER = 8
    FLOAT = 9
    CALL_SITE_LOC = 10
    FILE_LOC = 11
    FUSED_LOC = 12
    FUSED_LOC_WITH_METADATA = 13
    NAME_LOC = 14
    UNKNOWN_LOC = 15
    DENSE_RESOURCE = 16
    DENSE_ARRAY = 17
    DENSE = 18
    DENSE_STRINGS = 19
    SPARSE = 20
    DISTINCT = 21
    FILE_RANGE = 22


class Type(IntEnum):
    """The types that the builtin dialect encodes itself."""

    INTEGER = 0
    INDEX = 1
    FUNCTION = 2
    BF16 = 3
    F16 = 4
    F32 = 5
    F64 = 6
    F80 = 7
    F128 = 8
    COMPLEX = 9
    MEMREF = 10
    MEMREF_IN_SPACE = 11
    NONE = 12
    TENSOR = 13
    TENSOR_WITH_ENCODING = 14
    TUPLE = 15
    UNRANKED_MEMREF = 16
    UNRANKED_MEMREF_IN_SPACE = 17
    UNRANKED_TENSOR = 18
    VECTOR = 19
    SCALABLE_VECTOR = 20


class Quant(IntEnum):
    """The types that the quant dialect encodes itself."""

    ANY = 1
    ANY_WITH_EXPRESSED = 2
    CALIBRATED = 3
    UNIFORM = 4
    PER_AXIS = 5
    SUB_CHANNEL = 6


DYNAMIC = -(1 << 63)
"""An extent that is not known."""
