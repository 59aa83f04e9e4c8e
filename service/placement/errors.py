"""Why a cluster or a question about it could not be read."""


class Unreadable(ValueError):
    """Something of a cluster says nothing usable. Never repeats a value that could hold a secret.

    ``path`` leads to what is wrong ("items[3].status.allocatable.cpu"), ``reason`` and ``remedy`` are one sentence each; the
    remedy is empty where the reason says it.
    """

    def __init__(self, path: str, reason: str, remedy: str = "") -> None:
        super().__init__(f"{path}: {reason}" + (f"; {remedy}" if remedy else ""))
        self.path = path
        self.reason = reason
        self.remedy = remedy

    def under(self, path: str) -> "Unreadable":
        """The same, seen from further out: its path begins with ``path``."""
        inner = f".{self.path}" if self.path and not self.path.startswith("[") else self.path
        return Unreadable(f"{path}{inner}", self.reason, self.remedy)


class TooMany(ValueError):
    """More of something than one simulation takes: ``what`` says of what and how many."""

    def __init__(self, path: str, what: str, limit: int, remedy: str) -> None:
        super().__init__(f"{path}: {what}, which is more than {limit}; {remedy}")
        self.path = path
        self.what = what
        self.limit = limit
        self.remedy = remedy
