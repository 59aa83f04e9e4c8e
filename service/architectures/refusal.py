"""Why a config.json could not be read."""


class UnreadableConfig(ValueError):
    """A configuration that does not say what the figures need, or says something impossible.

    ``field`` is the path of the offending key ("text_config.hidden_size", or "config" for the whole), ``reason`` and
    ``remedy`` are one sentence each.
    """

    def __init__(self, field: str, reason: str, remedy: str) -> None:
        super().__init__(f"{field}: {reason} {remedy}")
        self.field = field
        self.reason = reason
        self.remedy = remedy
