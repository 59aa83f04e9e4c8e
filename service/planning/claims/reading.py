"""From the words of a vendor to claims: one per figure, each with its subject, or one per name where there are no figures."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from service.planning.claims import words
from service.planning.claims.amounts import amounts
from service.planning.claims.claim import Amount, Claim, Kind, Mention
from service.planning.claims.names import Names, like_products
from service.planning.claims.requests import Quantity
from service.planning.errors import TooLarge

MAX_CLAIMS: Final = 50
_MAX_FIGURES: Final = 4 * MAX_CLAIMS  # counts of devices and sizes in names are figures that claim nothing
_SENTENCE_END: Final = re.compile(r"[\n;]|(?<!\bvs)(?<!\bca)[.](?=\s|$)|[!?](?=\s|$)", re.IGNORECASE)
_CLAUSE_END: Final = re.compile(r"[,|](?=\s|$)|\b(?:and|but|while|whereas|or)\b", re.IGNORECASE)
_BASELINE_BEFORE: Final = re.compile(
    r"\b(?:vs\.?|versus|over|against|than|compared (?:to|with)|relative to)\s{1,3}(?:the\s|an?\s|its\s)?"
    r"(?:(?:tsmc|nvidia|amd)(?:'s)?\s)?$",
    re.IGNORECASE,
)
_MULTIPLE_OF: Final = re.compile(r"[^:;]{0,60}\b(?:of|as)\s(?:an?\s|the\s)?(?:nvidia(?:'s)?\s|amd(?:'s)?\s)?", re.IGNORECASE)
_ARROW: Final = re.compile(r"(?:→|->|=>|\bto\b)", re.IGNORECASE)
_OF_DEVICES: Final = re.compile(r"(?<![\w.])(\d{1,6})[ ]?[x×*-]?[ ]?$")
_TOGETHER: Final = re.compile(r"\bor\b|\beither\b", re.IGNORECASE)
#: The number before a dash: "10-15 %" is a range, "A100-80GB" a name.
_RANGE: Final = re.compile(r"(?:^|[\s(+~])\d[\d.,]{0,12}$")
_RETICLE: Final = re.compile(r"\b(?:reticle|exposure field|field limit)\b", re.IGNORECASE)
_GENERATION: Final = re.compile(r"\d{1,2}(?:\.\d)?\s?nm", re.IGNORECASE)
_BY_UNIT: Final = {
    "FLOP/s": Quantity.PEAK,
    "W": Quantity.POWER,
    "Hz": Quantity.CLOCK,
    "mm2": Quantity.AREA,
    "nm": Quantity.LENGTH,
    "transistors": Quantity.TRANSISTORS,
    "units": Quantity.COMPUTE_UNITS,
    "devices": Quantity.DEVICES,
}


class _Sentence(Struct, frozen=True):
    """A sentence with what it names and the figures in it; positions count from the start of the text."""

    text: str
    start: int
    mentions: tuple[Mention, ...]
    amounts: tuple[Amount, ...]
    clauses: tuple[tuple[int, int], ...]

    def clause_of(self, position: int) -> tuple[int, int]:
        """The clause that holds a position."""
        return next(((start, end) for start, end in self.clauses if start <= position < end), self.clauses[-1])

    def words(self, start: int, end: int) -> str:
        """A part of the sentence by positions in the text."""
        return self.text[max(0, start - self.start) : max(0, end - self.start)]


def read_claims(text: str, names: Names) -> tuple[Claim, ...]:
    """The claims of a text in order. Raises TooLarge where there are more than a request may hold."""
    claims: list[Claim] = []
    carried: Mention | None = None
    for sentence in _sentences(text, names):
        made, carried = _claims_of(sentence, carried, names)
        claims += made
        if len(claims) > MAX_CLAIMS:
            raise TooLarge("text", "it holds more claims", MAX_CLAIMS, "split it over several requests")
    return tuple(claims)


def _sentences(text: str, names: Names) -> Iterator[_Sentence]:
    mentions = list(names.mentions(text))
    every = list(islice(amounts(text), _MAX_FIGURES + 1))
    if len(every) > _MAX_FIGURES:
        raise TooLarge("text", "it holds more figures", _MAX_FIGURES, "split it over several requests")
    figures = [each for each in every if not _is_part_of_a_name(each, mentions, text)]
    start = 0
    for end in [*(found.start() for found in _SENTENCE_END.finditer(text)), len(text)]:
        # A point within a name or a number ends no sentence: only whole ones are cut.
        if any(each.start < end < each.end for each in mentions):
            continue
        part = text[start:end]
        if part.strip():
            inside = tuple(each for each in mentions if start <= each.start < end)
            within = tuple(each for each in figures if start <= each.start < end)
            yield _Sentence(part, start, inside, within, tuple(_clauses(part, start, within, inside)))
        start = end + 1


def _is_part_of_a_name(amount: Amount, mentions: Sequence[Mention], text: str) -> bool:
    """Whether a figure belongs to a product's name: "H100-80GB", or "A100 80GB SXM" where a name goes on behind it."""
    for mention in mentions:
        if mention.start <= amount.start < mention.end:
            is_apart = amount.start == 0 or text[amount.start - 1].isspace() or _GENERATION.fullmatch(mention.text)
            return not is_apart or amount.end < mention.end
    is_attached = amount.start > 0 and text[amount.start] in "-\u2212" and text[amount.start - 1].isalnum()
    return is_attached and not _RANGE.search(text, max(0, amount.start - 20), amount.start)


def _clauses(part: str, start: int, figures: Sequence[Amount], mentions: Sequence[Mention]) -> Iterator[tuple[int, int]]:
    """The clauses of a sentence. One without a figure goes with the one before it, the first with the one behind it."""
    begin = start
    pending = False
    ends = [start + found.start() for found in _CLAUSE_END.finditer(part)] + [start + len(part)]
    for number, end in enumerate(ends):
        is_last = number == len(ends) - 1
        following = ends[number + 1] if not is_last else end
        has_figure = any(begin <= each.start < end for each in figures)
        next_has = any(end <= each.start < following for each in figures)
        next_named = any(end <= each.start < following for each in mentions)
        pending = has_figure and (next_has or next_named)
        if is_last or pending:
            yield begin, end
            begin = end


def _claims_of(sentence: _Sentence, carried: Mention | None, names: Names) -> tuple[list[Claim], Mention | None]:
    baselines = _baselines(sentence)
    compared = {each.start for each in baselines}
    subjects = [each for each in sentence.mentions if each.start not in compared]
    figures = _figures(sentence, subjects)
    if not figures:
        return _without_figures(sentence, subjects, baselines), _last(subjects, carried)
    claims = []
    precisions: tuple[str, ...] = ()
    for amount in figures:
        subject = (
            _subject(sentence, subjects, amount) or _unknown_before(sentence, names) or carried or _unknown(sentence, names)
        )
        claim = _claim(sentence, amount, subject, _baseline_of(sentence, baselines, amount), figures)
        if claim.quantity is Quantity.PEAK:
            claim = replace(claim, precisions=claim.precisions or precisions)
            precisions = claim.precisions
        claims.append(claim)
        carried = subject or carried
    return _joined(claims, sentence), _last(subjects, carried)


def _without_figures(sentence: _Sentence, subjects: Sequence[Mention], baselines: Sequence[Mention]) -> list[Claim]:
    """Names alone; a product and a process together claim that the one is made in the other."""
    made = [each for each in subjects if {Kind.ACCELERATOR, Kind.DIE} & {name.kind for name in each.names}]
    processes = [each for each in subjects if {name.kind for name in each.names} == {Kind.PROCESS}]
    if not made or not processes:
        return [_bare(sentence, each, baselines) for each in _distinct(subjects)]
    return [replace(_bare(sentence, each, processes), quantity=Quantity.MADE_IN) for each in _distinct(made)]


def _last(subjects: Sequence[Mention], carried: Mention | None) -> Mention | None:
    """What a sentence without a name is about."""
    return subjects[-1] if subjects else carried


def _distinct(mentions: Sequence[Mention]) -> list[Mention]:
    return list({each.text.casefold(): each for each in mentions}.values())


def _figures(sentence: _Sentence, subjects: Sequence[Mention]) -> list[Amount]:
    """What is claimed: not the counts that say of how many devices, nor the memory that is part of a product's name."""
    figures = [each for each in sentence.amounts if each.unit != "devices"] or list(sentence.amounts)
    figures = [each for each in figures if not (each.unit == "x" and _counts_devices(each, subjects))]
    named = {each.start for each in subjects}
    baselines = [each for each in sentence.mentions if each.start not in named]
    figures = [each for each in figures if not _is_within(each, baselines)]
    return [each for each in figures if not _is_within(each, subjects)] or figures


def _is_within(amount: Amount, mentions: Sequence[Mention]) -> bool:
    return any(mention.start <= amount.start < mention.end for mention in mentions)


def _counts_devices(amount: Amount, subjects: Sequence[Mention]) -> bool:
    return any(_is_right_before(amount, mention) for mention in subjects) and "." not in amount.printed


def _is_right_before(amount: Amount, mention: Mention) -> bool:
    return 0 <= mention.start - amount.end <= 1


def _baselines(sentence: _Sentence) -> tuple[Mention, ...]:
    """What the sentence compares with: behind "than" or "vs", before an arrow to another name, or behind "120x"."""
    found = []
    for number, mention in enumerate(sentence.mentions):
        following = sentence.mentions[number + 1] if number + 1 < len(sentence.mentions) else None
        is_multiple = number > 0 and _is_multiplied(sentence, mention)
        is_from = following is not None and following.start - mention.end <= 40
        if (
            is_multiple
            or _BASELINE_BEFORE.search(sentence.words(mention.start - 48, mention.start))
            or (is_from and following and _ARROW.search(sentence.words(mention.end, following.start)))
        ):
            found.append(mention)
    return tuple(found)


def _is_multiplied(sentence: _Sentence, mention: Mention) -> bool:
    """Whether a factor is of it: "120x V100", "1.3x the FP16 FLOPS of H100"."""
    factors = [each for each in sentence.amounts if each.unit == "x" and each.end <= mention.start]
    between = sentence.words(factors[-1].end, mention.start) if factors else ""
    return bool(factors) and (_is_right_before(factors[-1], mention) or bool(_MULTIPLE_OF.fullmatch(between)))


def _baseline_of(sentence: _Sentence, baselines: Sequence[Mention], amount: Amount) -> Mention | None:
    """The baseline of one figure: of its clause, else the next one, else the last."""
    start, end = sentence.clause_of(amount.start)
    within = [each for each in baselines if start <= each.start < end]
    following = [each for each in baselines if each.start >= amount.end]
    return next(iter((*within, *following, *baselines[-1:])), None)


def _subject(sentence: _Sentence, subjects: Sequence[Mention], amount: Amount) -> Mention | None:
    start, end = sentence.clause_of(amount.start)
    within = [each for each in subjects if start <= each.start < end]
    before = [each for each in within if each.start <= amount.start]
    if before or within:
        return (before or within[:1])[-1]
    earlier = [each for each in subjects if each.start < amount.start]
    return earlier[-1] if earlier else (subjects[0] if subjects else None)


def _unknown_before(sentence: _Sentence, names: Names) -> Mention | None:
    """A subject of the sentence's own that is not known: what looks like a product, or heads it before a colon.

    Without it the sentence would be taken for one about the subject before.
    """
    for mention in like_products(sentence.text):
        if not any(each.start <= mention.start + sentence.start < each.end for each in sentence.amounts):
            return mention
    head, colon, _ = sentence.text[: max(0, sentence.amounts[0].start - sentence.start)].partition(":")
    if colon and not words.is_about_a_quantity(head):
        return _unknown(sentence, names)
    return None


def _unknown(sentence: _Sentence, names: Names) -> Mention | None:
    """Words that stand where a product should: before a colon, or at the start."""
    head = sentence.text[: max(0, sentence.amounts[0].start - sentence.start)] if sentence.amounts else sentence.text
    subject = " ".join(re.findall(r"[A-Za-z][\w-]{2,30}", head.partition(":")[0][:120])[:3])
    return Mention(0, 0, subject, ()) if subject and names.nearest(subject) else None


def _claim(
    sentence: _Sentence, amount: Amount, subject: Mention | None, baseline: Mention | None, figures: Sequence[Amount]
) -> Claim:
    start, end = sentence.clause_of(amount.start)
    clause = sentence.words(start, end)
    near = _near(sentence, amount, figures, start, end)
    names = subject.names if subject else ()
    claim = Claim(
        text=" ".join(clause.split()).strip(" ,:|"),
        subject=subject.text if subject else "",
        names=names,
        amount=amount,
        precisions=words.precisions(near),
        sparsity=words.sparsity(near),
        num_devices=_num_devices(sentence, subject),
        per_device=words.is_one_device(near),
        per_superchip=words.is_superchip(clause),
        per_system=words.system(near),
        direction=words.direction(near),
        link=words.link(near),
        baseline=baseline.text if baseline else "",
        baselines=baseline.names if baseline else (),
        is_usable=words.is_usable_memory(near),
        is_dimension=words.is_dimension(clause),
    )
    return _with_quantity(claim, sentence, near, subject, baseline)


def _near(sentence: _Sentence, amount: Amount, figures: Sequence[Amount], start: int, end: int) -> str:
    """The words that belong to one figure of a clause: up to the figures beside it."""
    before = [each.end for each in figures if start <= each.start and each.end <= amount.start]
    after = [each.start for each in figures if amount.end <= each.start < end]
    # Words between two figures go with the first of them.
    return sentence.words(amount.start if before else start, min(after, default=end))


def _num_devices(sentence: _Sentence, subject: Mention | None) -> int | None:
    counted = [each for each in sentence.amounts if each.unit == "devices" and each.values[0].value >= 1]
    if counted and len(sentence.amounts) > len(counted):
        return int(counted[0].values[0].value)
    if subject is None or subject.start < sentence.start:
        return None
    found = _OF_DEVICES.search(sentence.words(subject.start - 10, subject.start))
    return int(found[1]) or None if found else None


def _with_quantity(claim: Claim, sentence: _Sentence, near: str, subject: Mention | None, baseline: Mention | None) -> Claim:
    assert claim.amount is not None
    unit = claim.amount.unit
    if unit in {"%", "x"}:
        return _relative(claim, sentence, near, subject, baseline)
    if unit == "B/s":
        quantity = Quantity.NETWORK_BANDWIDTH if words.is_network(near) else Quantity.MEMORY_BANDWIDTH
        return replace(claim, quantity=Quantity.LINK_BANDWIDTH if claim.link else quantity)
    if unit == "B":
        return replace(claim, quantity=Quantity.L2_CACHE if words.is_cache(near) else Quantity.MEMORY)
    return replace(claim, quantity=_BY_UNIT[unit])


def _relative(claim: Claim, sentence: _Sentence, near: str, subject: Mention | None, baseline: Mention | None) -> Claim:
    """A percentage or a factor: of a process, of the exposure field, or of one accelerator against another."""
    assert claim.amount is not None
    if claim.of(Kind.PROCESS):
        start, end = sentence.clause_of(claim.amount.start)
        before, after = sentence.words(start, claim.amount.start), sentence.words(claim.amount.end, end)
        quantity = words.process_quantity(before, after.partition(",")[0])
        if quantity is None and claim.amount.sign == "-":
            quantity = Quantity.PROCESS_POWER
        return replace(claim, quantity=quantity)
    if claim.amount.unit == "%" and _RETICLE.search(sentence.text):
        return replace(claim, quantity=Quantity.SHARE_OF_EXPOSURE_FIELD)
    own, other = _precisions_beside(sentence, subject), _precisions_beside(sentence, baseline)
    if not own:
        own = words.precisions(near)
    return replace(
        claim,
        quantity=Quantity.RATIO,
        ratio_of=words.ratio_of(near) or (Quantity.PEAK if own else None),
        precisions=own,
        baseline_precisions=other or own,
    )


def _precisions_beside(sentence: _Sentence, mention: Mention | None) -> tuple[str, ...]:
    """The number formats named right behind a mention, before the next one."""
    if mention is None or mention.start < sentence.start:
        return ()
    following = [each.start for each in sentence.mentions if each.start >= mention.end]
    end = min([*following, mention.end + 40])
    return words.precisions(sentence.words(mention.end, end))


def _bare(sentence: _Sentence, mention: Mention, baselines: Sequence[Mention]) -> Claim:
    """A name without a figure: a question of what it is, or of one quantity of it."""
    baseline = baselines[0] if baselines else None
    return Claim(
        text=" ".join(sentence.text.split()),
        subject=mention.text,
        names=mention.names,
        quantity=words.ratio_of(sentence.text),
        precisions=words.precisions(sentence.text),
        baseline=baseline.text if baseline else "",
        baselines=baseline.names if baseline else (),
        per_superchip=words.is_superchip(sentence.text),
    )


def _joined(claims: list[Claim], sentence: _Sentence) -> list[Claim]:
    """Marks speed and power of one process that a sentence claims together."""
    both = {Quantity.PROCESS_SPEED, Quantity.PROCESS_POWER}
    if both <= {each.quantity for each in claims} and not _TOGETHER.search(sentence.text):
        return [replace(each, is_joined=True) if each.quantity in both else each for each in claims]
    return claims
