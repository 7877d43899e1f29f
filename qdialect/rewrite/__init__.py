"""Rules, their driver and the remark log."""

from qdialect.rewrite.driver import Driver, Rewriter, retyped
from qdialect.rewrite.remarks import Remark, RemarkLog
from qdialect.rewrite.rule import Refusal, Rule

__all__ = ["Driver", "Refusal", "Remark", "RemarkLog", "Rewriter", "Rule", "retyped"]
