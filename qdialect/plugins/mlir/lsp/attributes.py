"""Reads one type or attribute out of its text, with the aliases of the text around it."""

from __future__ import annotations

import re

from xdsl.ir import Attribute

from qdialect.errors import QError
from qdialect.ir.context import QContext
from qdialect.plugins.mlir.read import parse_text

_ALIAS = re.compile(r"^[#!][\w$.-]+[ \t]*=[^\n]*$", re.MULTILINE)
_NAME = "qopt.attribute"


def parse_attribute(text: str, around: str, ctx: QContext) -> Attribute | None:
    """What `text` stands for, with the aliases that `around` defines; None if it does not parse.

    Aliases are read from lines of their own; one whose definition takes several is not known.
    """
    aliases = "\n".join(found.group() for found in _ALIAS.finditer(around))
    source = f"{aliases}\nmodule attributes {{{_NAME} = {text}}} {{}}\n"
    try:
        return parse_text(source, ctx, "<attribute>").module.attributes.get(_NAME)
    except QError:
        return None
