"""Rules, their driver and the remark log."""

from qdialect.rewrite.driver import Driver
from qdialect.rewrite.remarks import Remark, RemarkLog
from qdialect.rewrite.rewriter import Rewriter, retyped
from qdialect.rewrite.rule import Refusal, Rule

__all__ = ["Driver", "Refusal", "Remark", "RemarkLog", "Rewriter", "Rule", "retyped"]
