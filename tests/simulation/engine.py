"""A serving engine as a discrete-event simulation: requests at random, continuous batching, a step at a time.

It shares with the estimate only what one step takes (``decode_step``, ``prefill``): queues, batches and percentiles come about
by themselves. Requests arrive as a Poisson process, wait for a place, and are prefilled whole or in chunks beside those that
decode, as far as the budget of tokens a step reaches; every decoding request gains a token a step.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from service.catalogue.calibrations import Parameters
from service.formulas.serving import prefill_pass_seconds
from service.planning.serving.steady import Traffic
from service.planning.serving.step import Prefill, decode_step, prefill
from service.planning.serving.work import ServingWork


@dataclass(slots=True)
class Request:
    """A request's way through the engine. Seconds; tokens that are still to be prefilled."""

    kind: int
    arrived: float
    tokens_left: float
    first_token: float = 0.0
    finished: float = 0.0


@dataclass(frozen=True, slots=True)
class Served:
    """What the requests of a kind saw after the warm-up, in the order in which they finished. Seconds."""

    ttft_seconds: tuple[float, ...]
    tpot_seconds: tuple[float, ...]


def percentile(values: tuple[float, ...], ratio: float) -> float:
    """The value that this part of all lies at or below."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(ratio * len(ordered)))]


@dataclass
class Engine:
    """One replica under a load of one kind of requests or several; ``shares``: how often each comes."""

    work: ServingWork
    by: Parameters
    kinds: Sequence[Traffic]
    places: float
    shares: Sequence[float] = (1.0,)
    prompts_elsewhere: bool = False  # computed by another replica before a request arrives here
    _steps: dict[int, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._prompts = [self._prompt(kind) for kind in self.kinds]
        held = [share * kind.output_tokens for share, kind in zip(self.shares, self.kinds, strict=True)]
        contexts = (kind.input_tokens + kind.output_tokens / 2 for kind in self.kinds)
        self._context = sum(each * context for each, context in zip(held, contexts, strict=True)) / sum(held)

    def _prompt(self, kind: Traffic) -> Prefill:
        return prefill(
            self.work,
            self.by,
            new_tokens=kind.input_tokens,
            cached_tokens=0.0,
            tokens_per_pass=kind.tokens_per_pass,
        )

    def _step_seconds(self, decoding: int, compute: float) -> float:
        """A step in which so many decode and prompts come along that compute so long."""
        base, fixed = self._decode_seconds(decoding) if decoding else (0.0, self._prompts[0].pass_seconds)
        if compute <= 0 or (self.prompts_elsewhere and decoding):
            return base
        if self.prompts_elsewhere:
            return 1e-9
        both = prefill_pass_seconds(compute_seconds=compute, fixed_seconds=fixed)
        return base + (self.by.interference_ratio if decoding else 1.0) * both

    def _decode_seconds(self, decoding: int) -> tuple[float, float]:
        """A step without prompts, and what a pass of prompts beside it costs whatever their size."""
        if decoding not in self._steps:
            step = decode_step(self.work, self.by, batch=float(decoding), context_tokens=self._context)
            beside = self._prompts[0].pass_beside_decode_seconds(step.experts_read_ratio)
            self._steps[decoding] = step.seconds, beside
        return self._steps[decoding]

    def serve(self, per_second: float, num_requests: int, random: Random, warm_up: float = 0.2) -> list[Served]:
        """So many requests at random; the first part of them, that finds the engine empty, is not counted. By kind."""
        clock = 0.0
        arrivals: deque[Request] = deque()
        for _ in range(num_requests):
            clock += random.expovariate(per_second)
            (kind,) = random.choices(range(len(self.kinds)), self.shares)
            arrivals.append(Request(kind, clock, self.kinds[kind].input_tokens))
        done = self._run(arrivals)
        counted = done[int(len(done) * warm_up) :]
        return [self._seen(number, [each for each in counted if each.kind == number]) for number in range(len(self.kinds))]

    def keep(self, in_flight: int, num_requests: int, random: Random, warm_up: float = 0.2) -> tuple[float, Served]:
        """A closed loop of the first kind: requests finished per second, and what they saw after the warm-up.

        Whoever has finished asks again at once; before a request reaches the engine it spends the host's time.
        """
        host = self._host_seconds(self.kinds[0])
        first = sorted(random.expovariate(1.0) for _ in range(in_flight))
        done = self._run(deque(Request(0, each, self.kinds[0].input_tokens) for each in first), host, num_requests)
        counted = done[int(len(done) * warm_up) :]
        rate = (len(counted) - 1) / (counted[-1].finished - counted[0].finished)
        return rate, self._seen(0, counted)

    def _host_seconds(self, kind: Traffic) -> float:
        return self.by.first_token_host_seconds + self.by.prompt_token_seconds * kind.input_tokens

    def _seen(self, number: int, requests: list[Request]) -> Served:
        kind = self.kinds[number]
        host = self._host_seconds(kind)
        gaps = max(1.0, kind.output_tokens - 1)
        return Served(
            tuple(each.first_token - each.arrived + host for each in requests),
            tuple((each.finished - each.first_token) / gaps for each in requests),
        )

    def _run(self, arrivals: deque[Request], again: float = 0.0, until: int = 0) -> list[Request]:
        """The requests in the order in which they finish. ``until``: so many, each of which comes back after ``again``."""
        now, step, number = 0.0, 0, 0
        waiting: deque[Request] = deque()
        prefilling: deque[Request] = deque()
        decoding: list[tuple[int, int, Request]] = []  # by the step in which each gets its last token
        done: list[Request] = []
        while (len(done) < until) if until else (arrivals or waiting or prefilling or decoding):
            known = len(done)
            while arrivals and arrivals[0].arrived <= now:
                waiting.append(arrivals.popleft())
            while waiting and len(prefilling) + len(decoding) < self.places:
                prefilling.append(waiting.popleft())
            if not prefilling and not decoding:
                now = arrivals[0].arrived
                continue
            finished, compute = self._prefilled(prefilling, len(decoding))
            now += self._step_seconds(len(decoding), compute)
            step += 1
            while decoding and decoding[0][0] <= step:
                request = heapq.heappop(decoding)[2]
                request.finished = now
                done.append(request)
            for request in finished:
                request.first_token = request.finished = now
                output = int(self.kinds[request.kind].output_tokens)
                if output > 1:
                    number += 1
                    heapq.heappush(decoding, (step + output - 1, number, request))
                else:
                    done.append(request)
            if until:
                arrivals.extend(Request(each.kind, now + again, self.kinds[0].input_tokens) for each in done[known:])
        return done

    def _prefilled(self, prefilling: deque[Request], decoding: int) -> tuple[list[Request], float]:
        """Prompts that this step completes, and how long it computes on them and on the part of the next."""
        budget = max(1.0, self.kinds[0].tokens_per_pass - decoding)
        finished, used, compute = [], 0.0, 0.0
        while prefilling and used < budget:
            first = prefilling[0]
            taken = min(first.tokens_left, budget - used)
            first.tokens_left -= taken
            used += taken
            compute += self._prompts[first.kind].compute_seconds * taken / self.kinds[first.kind].input_tokens
            if first.tokens_left > 0:
                break
            finished.append(prefilling.popleft())
        return finished, compute
