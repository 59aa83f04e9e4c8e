"""A serving engine as a discrete-event simulation: requests at random, continuous batching, a step at a time.

It shares with the estimate only what one step takes (``decode_step``, ``prefill``): queues, batches and percentiles come about
by themselves. Requests arrive as a Poisson process, wait for a place, and are prefilled whole or in chunks beside those that
decode, as far as the budget of tokens a step reaches; every decoding request gains a token a step.
"""

from collections import deque
from dataclasses import dataclass, field
from random import Random

from service.catalogue.calibrations import Parameters
from service.formulas.serving import prefill_pass_seconds
from service.planning.serving.steady import Traffic
from service.planning.serving.step import decode_step, prefill
from service.planning.serving.work import ServingWork


@dataclass(slots=True)
class Request:
    """A request's way through the engine. Seconds; tokens that are still to be prefilled."""

    arrived: float
    tokens_left: float
    first_token: float = 0.0
    finished: float = 0.0


@dataclass(frozen=True, slots=True)
class Served:
    """What the requests saw after the warm-up, in the order in which they finished. Seconds."""

    ttft_seconds: tuple[float, ...]
    tpot_seconds: tuple[float, ...]

    def attainment(self, ttft_limit: float, tpot_limit: float) -> float:
        """The part of the requests that stay within both limits."""
        met = sum(t <= ttft_limit and p <= tpot_limit for t, p in zip(self.ttft_seconds, self.tpot_seconds, strict=True))
        return met / len(self.ttft_seconds)


def percentile(values: tuple[float, ...], ratio: float) -> float:
    """The value that this part of all lies at or below."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(ratio * len(ordered)))]


@dataclass
class Engine:
    """One replica under a load of equal requests."""

    work: ServingWork
    by: Parameters
    traffic: Traffic
    places: float
    _steps: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._prompt = prefill(
            self.work,
            self.by,
            new_tokens=self.traffic.input_tokens,
            cached_tokens=0.0,
            tokens_per_pass=self.traffic.tokens_per_pass,
            experts_read_ratio=0.5,
        )

    def step_seconds(self, decoding: int, prompt_tokens: float) -> float:
        """A step in which so many decode and so many tokens of prompts come along."""
        base = self._decode_seconds(decoding) if decoding else 0.0
        if prompt_tokens <= 0:
            return base
        fixed = self._prompt.pass_beside_decode_seconds if decoding else self._prompt.pass_seconds
        compute = self._prompt.compute_seconds * prompt_tokens / self.traffic.input_tokens
        both = prefill_pass_seconds(compute_seconds=compute, fixed_seconds=fixed)
        return base + (self.by.interference_ratio if decoding else 1.0) * both

    def _decode_seconds(self, decoding: int) -> float:
        if decoding not in self._steps:
            context = self.traffic.input_tokens + self.traffic.output_tokens / 2
            self._steps[decoding] = decode_step(self.work, self.by, batch=float(decoding), context_tokens=context).seconds
        return self._steps[decoding]

    def serve(self, per_second: float, num_requests: int, random: Random, warm_up: float = 0.2) -> Served:
        """So many requests at random; the first part of them, that finds the engine empty, is not counted."""
        clock = 0.0
        arrivals: deque[Request] = deque()
        for _ in range(num_requests):
            clock += random.expovariate(per_second)
            arrivals.append(Request(clock, self.traffic.input_tokens))
        done = self._run(arrivals)
        skipped = int(len(done) * warm_up)
        host = self.by.first_token_host_seconds + self.by.prompt_token_seconds * self.traffic.input_tokens
        gaps = max(1.0, self.traffic.output_tokens - 1)
        counted = done[skipped:]
        return Served(
            tuple(each.first_token - each.arrived + host for each in counted),
            tuple((each.finished - each.first_token) / gaps for each in counted),
        )

    def _run(self, arrivals: deque[Request]) -> list[Request]:
        now, step, output = 0.0, 0, int(self.traffic.output_tokens)
        waiting: deque[Request] = deque()
        prefilling: deque[Request] = deque()
        decoding: deque[tuple[int, Request]] = deque()  # the step in which each gets its last token
        done: list[Request] = []
        while arrivals or waiting or prefilling or decoding:
            while arrivals and arrivals[0].arrived <= now:
                waiting.append(arrivals.popleft())
            while waiting and len(prefilling) + len(decoding) < self.places:
                prefilling.append(waiting.popleft())
            if not prefilling and not decoding:
                now = arrivals[0].arrived
                continue
            finished, tokens = self._prefilled(prefilling, len(decoding))
            now += self.step_seconds(len(decoding), tokens)
            step += 1
            while decoding and decoding[0][0] <= step:
                request = decoding.popleft()[1]
                request.finished = now
                done.append(request)
            for request in finished:
                request.first_token = now
                request.finished = now
                if output > 1:
                    decoding.append((step + output - 1, request))
                else:
                    done.append(request)
        return done

    def _prefilled(self, prefilling: deque[Request], decoding: int) -> tuple[list[Request], float]:
        """Prompts that this step completes, and how many of their tokens it computes."""
        budget = max(1.0, self.traffic.tokens_per_pass - decoding)
        finished, used = [], 0.0
        while prefilling and used < budget:
            taken = min(prefilling[0].tokens_left, budget - used)
            prefilling[0].tokens_left -= taken
            used += taken
            if prefilling[0].tokens_left > 0:
                break
            finished.append(prefilling.popleft())
        return finished, used
