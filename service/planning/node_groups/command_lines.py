"""What a container is started with: words, flags and their values, with variables filled in as far as they are known."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from msgspec import Struct, field

#: $(NAME) is filled in by the kubelet; ${NAME}, ${NAME:-default} and $NAME by a shell.
_VARIABLE: Final = re.compile(r"\$\((\w+)\)|\$\{(\w+)(?::?-([^}]*))?\}|\$(\w+)")
_SHELL_SCRIPT: Final = re.compile(r"-[a-z]*c")
_LONGEST_SCRIPT: Final = 20_000  # characters; more than any start of an engine
_MOST_WORDS: Final = 2_000


class CommandLine(Struct, frozen=True, dict=True):
    """How a container is started. Nothing of it is kept or shown: it may hold secrets."""

    image: str = ""
    words: Sequence[str] = ()  # command and arguments
    environment: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def filled(self) -> tuple[str, ...]:
        """The words of the command and of the scripts in it, variables filled in. A variable that is not known stays."""
        return tuple(self._filled())

    def _filled(self) -> Iterator[str]:
        is_script = False
        for word in self.words[:_MOST_WORDS]:
            if is_script and len(word) <= _LONGEST_SCRIPT:
                yield from map(self._with_variables, _split(word))
            else:
                yield self._with_variables(word)
            is_script = _SHELL_SCRIPT.fullmatch(word) is not None

    def _with_variables(self, word: str) -> str:
        if "$" not in word:
            return word

        def value(match: re.Match[str]) -> str:
            known = self.environment.get(match[1] or match[2] or match[4])
            return known or match[3] or match[0]

        return _VARIABLE.sub(value, word)

    @cached_property
    def flags(self) -> Mapping[str, str]:
        """Values by flag, without dashes in front and with dashes within: "tensor-parallel-size". The last of several holds."""
        found: dict[str, str] = {}
        words = self.filled
        for place, word in enumerate(words):
            if not word.startswith("-") or word.strip("-") == "" or word[1:].isdigit():
                continue
            name, is_joined, value = word.partition("=")
            following = words[place + 1] if place + 1 < len(words) else "-"
            if not is_joined and (not following.startswith("-") or following[1:].isdigit()):
                value = following
            found[name.lstrip("-").replace("_", "-")] = value
        return found

    def after(self, *programs: str) -> str:
        """The first word behind one of the programs that is no flag; empty where there is none."""
        words = self.filled
        for place, word in enumerate(words[:-1]):
            if word.rpartition("/")[2] in programs and not words[place + 1].startswith("-"):
                return words[place + 1]
        return ""


def _split(script: str) -> list[str]:
    try:
        return shlex.split(script)
    except ValueError:  # a quotation that does not end
        return script.split()
