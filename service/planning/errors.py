"""Why a question was not answered. The doors map each to its status; see ``service.api.errors``."""

from msgspec import Struct


class Violation(Struct, frozen=True):
    """One thing wrong with a request."""

    field: str  # path in the request: "parallelism.tensor"
    reason: str  # what is wrong, in a sentence
    remedy: str = ""  # what to do instead, in a sentence; empty where the reason says it


class PlanningError(Exception):
    """A question that cannot be answered, for a reason that its asker can act on."""


class InvalidRequest(PlanningError):
    """The request contradicts itself or lacks something. Carries every violation found, not only the first."""

    def __init__(self, *violations: Violation) -> None:
        super().__init__("; ".join(f"{violation.field}: {violation.reason}" for violation in violations))
        self.violations = violations


class NotFound(PlanningError):
    """The catalogue knows no such accelerator, model or node type. ``others``: further names of the request, unknown too."""

    def __init__(self, field: str, kind: str, name: str, nearest: tuple[str, ...], others: tuple["NotFound", ...] = ()) -> None:
        hint = f"; nearest: {', '.join(nearest)}" if nearest else ""
        own = f"{field}: the catalogue has no {kind} called {name!r}{hint}"
        super().__init__("; ".join((own, *map(str, others))))
        self.field = field
        self.kind = kind
        self.name = name
        self.nearest = nearest
        self.others = others


class Unanswerable(PlanningError):
    """The question is well formed, but a figure that its answer needs does not exist. Nothing is extrapolated."""

    def __init__(self, field: str, missing: str, remedy: str) -> None:
        super().__init__(f"{field}: {missing}")
        self.field = field
        self.missing = missing
        self.remedy = remedy


class TooLarge(PlanningError):
    """The question is well formed, but answering it would take more than any one request may."""

    def __init__(self, field: str, what: str, limit: int, remedy: str) -> None:
        super().__init__(f"{field}: {what}, which is more than {limit}; {remedy}")
        self.field = field
        self.limit = limit
        self.remedy = remedy


class Undecided(PlanningError):
    """A choice was asked for and none can be made with good reason: whoever asked chooses as if nobody had been asked."""


class OutOfTime(PlanningError):
    """The answer would come later than its asker waits for it."""
