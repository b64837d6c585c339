"""How a model says no."""


class Refused(Exception):
    """The bytes were refused; `status` is the name of the wk_status that the C gives."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status


def refuse_if(condition: bool, status: str = "WK_CORRUPT") -> None:
    """Raises Refused if `condition` holds."""
    if condition:
        raise Refused(status)
