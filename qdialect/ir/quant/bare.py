"""An error of a verifier whose message stands alone."""

from xdsl.utils.exceptions import VerifyException


class BareVerifyException(VerifyException):
    """An error whose message stands alone: upstream puts no `'op.name' op` before it."""
