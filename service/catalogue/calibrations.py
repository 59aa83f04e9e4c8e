"""The catalogue's nouns for calibrations: what an engine takes on a generation of accelerators, fitted to measured runs.

One file an engine, written by ``make calibrate`` and never by hand. Each generation in it is either fitted to runs of that very
pair, or a prior: what the engine takes elsewhere, carried over by what kernels reach on the generation.
"""

import datetime
import re
from enum import StrEnum
from math import isfinite
from typing import Final

from msgspec import Struct
from msgspec.structs import fields, replace

from service.catalogue.engines import Version, parse_version
from service.catalogue.sections import Section
from service.units import BYTES_PER_ELEMENT

_DAYS_PER_YEAR: Final = 365.25
_BUILD_DAY: Final = re.compile(r"(?<!\d)(20\d\d)(\d\d)(\d\d)(?!\d)")


class CalibrationBasis(StrEnum):
    """What the parameters of a generation rest on."""

    MEASURED = "MEASURED"  # runs of this engine on this generation
    PRIOR = "PRIOR"  # no such runs: the engine elsewhere, and kernels or another generation here


class Parameters(Struct, frozen=True):
    """What a step takes: ratios of what is reached of a peak, and times. One engine on one generation.

    A sweep and a fit hold arrays in the same fields.
    """

    # Of the memory bandwidth; those of 8 and 4 bits and of experts are relative to the dense one.
    dense_bandwidth_ratio: float
    eight_bit_bandwidth_ratio: float
    four_bit_bandwidth_ratio: float
    expert_bandwidth_ratio: float
    four_bit_expert_bandwidth_ratio: float
    cache_bandwidth_ratio: float
    widening_bytes_per_second: float  # 4-bit experts that are widened before they are multiplied
    # How alike the tokens of a batch choose their experts: 1 is by chance.
    routing_exponent: float
    # Kernels that take as long whatever the batch.
    layer_seconds: float
    quantized_layer_seconds: float
    expert_layer_seconds: float
    widening_layer_seconds: float
    latent_layer_seconds: float
    linear_layer_seconds: float
    seconds_per_expert: float  # of one layer, read by a step
    step_seconds: float
    request_seconds: float  # host time for each request of a step
    # Collectives.
    collective_base_seconds: float
    collective_doubling_seconds: float
    collective_seconds_per_root_byte: float
    collective_ratio: float  # of the latency measured alone
    # Arithmetic, of the dense peak.
    decode_attention_compute_ratio: float
    prefill_sixteen_bit_ratio: float
    prefill_eight_bit_ratio: float
    prefill_four_bit_ratio: float
    expert_prefill_ratio: float  # relative to dense matrices
    prefill_attention_ratio: float
    linear_prefill_factor: float  # how much longer a prompt takes where all layers are linear
    latent_prefill_factor: float
    prefill_state_moves: float  # how often kernels between the matrices of a layer read or write a hidden state
    prefill_launch_ratio: float  # launching kernels one by one, of what the same kernels take in a captured graph
    interference_ratio: float  # what prompts cost the requests that decode, of what they take alone
    # Until the first token.
    first_token_host_seconds: float
    prompt_token_seconds: float
    prompts_ahead_per_request: float
    # Releases get faster: times of kernels and host shrink by this factor a year.
    yearly_speedup: float

    def aged(self, years: float) -> "Parameters":
        """The parameters as they hold for releases so many years after the reference."""
        factor = self.yearly_speedup**-years
        return replace(self, **{name: getattr(self, name) * factor for name in RELEASE_TIMES})


#: Names of the parameters, as the files spell them.
PARAMETER_NAMES: Final = tuple(each.name for each in fields(Parameters))
#: Those that shrink from release to release: launches and host work, not bandwidth.
RELEASE_TIMES: Final = (
    "layer_seconds",
    "quantized_layer_seconds",
    "expert_layer_seconds",
    "widening_layer_seconds",
    "latent_layer_seconds",
    "linear_layer_seconds",
    "step_seconds",
    "request_seconds",
    "first_token_host_seconds",
)


class Spread(Struct, frozen=True):
    """How far measured runs lie from the estimate: measured over estimated, at the 10th and the 90th percentile."""

    p10: float
    p90: float


class Spreads(Struct, frozen=True):
    """Spreads of the two times of a request, and on how many runs they rest."""

    inter_token: Spread
    first_token: Spread
    num_runs: int


class GenerationCalibration(Struct, frozen=True):
    """One engine on one generation of accelerators."""

    generation: str
    architectures: tuple[str, ...]  # as the accelerators' files name them
    basis: CalibrationBasis
    parameters: Parameters
    kv_cache_precision: str  # what the runs are taken to have kept the cache of quantised weights in
    seen: tuple[str, ...]  # "model on accelerator", as in the data
    familiar: Spreads  # for what was seen
    unfamiliar: Spreads  # for what was not
    statistics: dict[str, float]  # of the fit, by name
    note: str | None


class Release(Struct, frozen=True):
    """A release of an engine and its day."""

    version: Version
    text: str
    day: datetime.date


class Calibration(Struct, frozen=True):
    """One engine, on every generation that anything is known of."""

    name: str
    aliases: tuple[str, ...]
    title: str
    date: str
    sources: tuple[str, ...]
    reference: datetime.date  # the day that the times hold for
    first: datetime.date  # days beyond which nothing was measured: releases outside are taken as these
    last: datetime.date
    releases: tuple[Release, ...]  # by day
    generations: tuple[GenerationCalibration, ...]

    def generation_of(self, architecture: str) -> GenerationCalibration | None:
        """What is known for accelerators of that architecture."""
        return next((each for each in self.generations if architecture in each.architectures), None)

    def age_years(self, version: str | None) -> float:
        """Years from the reference to a release, within what was measured; 0 where no known version is given.

        A release that is not listed is taken as the last one listed before it.
        """
        day = release_day(self.releases, version)
        return 0.0 if day is None else years_between(self.reference, min(max(day, self.first), self.last))


def release_day(releases: tuple[Release, ...], version: str | None) -> datetime.date | None:
    """The day in a build's name, else that of the release, or of the last listed before it; None where nothing tells it."""
    if version is None:
        return None
    built, wanted = _day_in(version), parse_version(version)
    if built is not None or wanted is None or not releases:
        return built
    older = [each.day for each in releases if each.version <= wanted]
    return older[-1] if older else releases[0].day


def _day_in(version: str) -> datetime.date | None:
    """The day that names of nightly builds tell ("nightly-dev-20260402-d7256eb6", "0.19.1.dev20260402")."""
    found = _BUILD_DAY.search(version)
    try:
        return datetime.date(*map(int, found.groups())) if found else None
    except ValueError:  # digits that look like a day and are none
        return None


def years_between(start: datetime.date, end: datetime.date) -> float:
    """Years from one day to another, below 0 where it lies before."""
    return (end - start).days / _DAYS_PER_YEAR


def read_calibration(section: Section) -> Calibration:
    """One file of ``calibrations/``."""
    releases = tuple(sorted((_release(each) for each in section.sections("releases")), key=lambda each: each.version))
    return Calibration(
        name=section.text("name"),
        aliases=section.texts("aliases"),
        title=section.text("title"),
        date=section.text("date"),
        sources=section.sources("source"),
        reference=_day(section, "reference"),
        first=_day(section, "first"),
        last=_day(section, "last"),
        releases=releases,
        generations=_generations(section),
    )


def _day(section: Section, key: str) -> datetime.date:
    text = section.text(key)
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        section.refuse(key, f"{text!r} is no day like 2025-11-01")
        return datetime.date(2025, 1, 1)


def _release(section: Section) -> Release:
    text = section.text("version")
    version = parse_version(text)
    if version is None:
        section.refuse("version", f"{text!r} begins with no number")
    release = Release(version or (), text, _day(section, "day"))
    section.done()
    return release


def _generations(section: Section) -> tuple[GenerationCalibration, ...]:
    """Every generation once, and every architecture in one of them only: which of two would hold is not for chance to say."""
    read: list[GenerationCalibration] = []
    for each in section.sections("generations", required=True):
        calibrated = _generation(each)
        if any(calibrated.generation == other.generation for other in read):
            each.refuse("generation", f"{calibrated.generation} stands here twice")
        for architecture in calibrated.architectures:
            if any(architecture in other.architectures for other in read):
                each.refuse("architectures", f"{architecture} stands in another generation too")
        read.append(calibrated)
    return tuple(read)


def _generation(section: Section) -> GenerationCalibration:
    calibrated = GenerationCalibration(
        generation=section.text("generation"),
        architectures=section.texts("architectures", required=True),
        basis=section.choice("basis", CalibrationBasis),
        parameters=_parameters(section),
        kv_cache_precision=section.word_of("kv_cache_precision", BYTES_PER_ELEMENT, "number format"),
        seen=section.texts("seen"),
        familiar=_spreads(section, "familiar"),
        unfamiliar=_spreads(section, "unfamiliar"),
        statistics={key: _number(section, key, value) for key, value in section.mapping("statistics").items()},
        note=section.optional_text("note"),
    )
    section.done()
    return calibrated


def _parameters(section: Section) -> Parameters:
    given = section.mapping("parameters")
    for name in sorted(given.keys() ^ set(PARAMETER_NAMES)):
        section.refuse("parameters", f"{name} is {'not known' if name in given else 'missing'}")
    return Parameters(**{name: _positive(section, "parameters", name, given.get(name, 1.0)) for name in PARAMETER_NAMES})


def _positive(section: Section, key: str, name: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf"):
        return float(value)
    section.refuse(key, f"{name}: {value!r} is no number above 0")
    return 1.0


def _number(section: Section, name: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value):
        return float(value)
    section.refuse("statistics", f"{name}: {value!r} is no number")
    return 0.0


def _spreads(section: Section, key: str) -> Spreads:
    values = section.mapping(key)
    names = ("inter_token_p10", "inter_token_p90", "first_token_p10", "first_token_p90")
    for name in sorted(values.keys() ^ {*names, "num_runs"}):
        section.refuse(key, f"{name} is {'not known' if name in values else 'missing'}")
    read = [_positive(section, key, name, values.get(name, 1.0)) for name in names]
    num_runs = int(_positive(section, key, "num_runs", values.get("num_runs", 1)))
    if read[0] > read[1] or read[2] > read[3]:
        section.refuse(key, "percentiles must ascend")
    return Spreads(Spread(read[0], read[1]), Spread(read[2], read[3]), num_runs)
