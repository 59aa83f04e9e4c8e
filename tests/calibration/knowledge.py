"""What is known besides runs (data/engines.yaml, data/collectives.csv), in the form that the fit takes."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final

import numpy as np
import yaml

from service.catalogue.calibrations import Release, release_day, years_between
from service.catalogue.engines import parse_version
from tests.calibration.runs import DATA, Run

_MIDDLE_OF_MONTH: Final = "-15"
#: Runs that name no release used the one of some weeks before.
_RELEASE_LAG: Final = timedelta(days=30)
#: Bytes per second one way, as in specs/accelerators.
_LINKS: Final = {"h100_sxm": 450e9, "b200_sxm": 900e9, "a100_sxm": 300e9, "l40s": 32e9, "rtx_pro_6000_server": 64e9}


@dataclass(frozen=True)
class Knowledge:
    """Engines, generations and days."""

    reference: date
    first: date
    last: date
    sources: tuple[str, ...]
    engines: Mapping[str, Mapping[str, Any]]
    serving: tuple[str, ...]
    generations: Mapping[str, Mapping[str, Any]]

    def generation_of(self) -> dict[str, str]:
        """Generation by the accelerators' architecture."""
        return {text: name for name, each in self.generations.items() for text in each["architectures"]}

    def releases(self, engine: str) -> tuple[Release, ...]:
        """An engine's releases, oldest first."""
        months = self.engines[engine]["releases"]
        return tuple(
            Release(parse_version(text) or (), text, date.fromisoformat(f"{month}{_MIDDLE_OF_MONTH}"))
            for text, month in months.items()
        )

    def age_years(self, run: Run) -> float:
        """Years from the reference to the release that a run used; that of some weeks before, where it does not say."""
        day = release_day(self.releases(run.engine), run.version)
        if day is None and run.day is not None:
            day = run.day - _RELEASE_LAG
        return years_between(self.reference, min(max(day or self.reference, self.first), self.last))

    def kv_cache(self) -> dict[tuple[str, str], str]:
        """By engine and architecture, what the cache of quantised weights is taken to be kept in."""
        return {
            (engine, architecture): precision
            for engine, known in self.engines.items()
            for generation, precision in known["kv_cache"].items()
            for architecture in self.generations[generation]["architectures"]
        }

    def measured(self) -> dict[str, dict[str, float]]:
        """By generation: ratios from kernels, and the latency of collectives."""
        return {
            name: {key: float(value) for key, value in each["ratios"].items()} | _collectives(each["collectives_of"])
            for name, each in self.generations.items()
        }


def knowledge() -> Knowledge:
    """Reads the files."""
    raw = yaml.safe_load((DATA / "engines.yaml").read_text())
    return Knowledge(
        reference=raw["reference"],
        first=raw["first"],
        last=raw["last"],
        sources=tuple(raw["sources"]),
        engines=raw["engines"],
        serving=tuple(raw["serving"]),
        generations=raw["generations"],
    )


def _collectives(accelerator: str) -> dict[str, float]:
    """Start, hop and ramp of an all-reduce: least squares in logarithms over its measured latencies up to 4 MiB."""
    from scipy.optimize import least_squares

    rows = [row for row in _collective_rows() if row["accelerator"] == accelerator and float(row["message_bytes"]) <= 4 << 20]
    devices, size, seconds = (
        np.array([float(row[key]) for row in rows]) for key in ("num_devices", "message_bytes", "latency_us_p50")
    )
    ring = 2 * (devices - 1) / devices * size / _LINKS[accelerator]

    def latency(logs: Any) -> Any:
        base, hop, ramp = np.exp(logs)
        return base + hop * np.log2(devices) + ramp * np.sqrt(size) + ring

    start = np.log([4e-6, 0.4e-6, 0.012e-6])
    least = np.log([1e-6, 0.01e-6, 1e-10])
    found = np.exp(
        least_squares(lambda logs: np.log(latency(logs) / (seconds * 1e-6)), start, bounds=(least, np.inf), loss="soft_l1").x
    )
    names = ("collective_base_seconds", "collective_doubling_seconds", "collective_seconds_per_root_byte")
    return dict(zip(names, map(float, found), strict=True))


def _collective_rows() -> list[dict[str, str]]:
    with (DATA / "collectives.csv").open(newline="") as file:
        return list(csv.DictReader(file))
