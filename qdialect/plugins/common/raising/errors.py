"""Why an op stays as it is."""


class Unraisable(Exception):
    """An op has no exact counterpart; becomes a remark with `code` and `reason`."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
