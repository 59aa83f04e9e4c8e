// From choices to requests of the REST API. Names are those of the API; the page computes nothing that the API answers.

import { modelOf } from "./own-model.js";
import { pricesOf } from "./prices.js";

const SHAPE = ["tensor", "pipeline", "expert", "attention_data"];
const CONCURRENCIES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
const TENSORS = [1, 2, 4, 8];

const given = (object) => Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));
const optional = (text) => (text === "" ? undefined : Number(text));

function precisionOf(choices) {
  const precision = given({
    weights: choices.weights || undefined,
    kv_cache: choices.kv_cache || undefined,
    compute: choices.compute || undefined,
  });
  return Object.keys(precision).length ? precision : undefined;
}

export const parallelismOf = (choices) => Object.fromEntries(SHAPE.map((field) => [field, Number(choices[field])]));

export const engineOf = (choices) =>
  choices.engine ? given({ name: choices.engine, version: choices.engine_version || undefined }) : undefined;

function deployment(choices) {
  return given({
    model: modelOf(choices),
    accelerator: { name: choices.accelerator },
    parallelism: parallelismOf(choices),
    precision: precisionOf(choices),
    memory_utilization_ratio: optional(choices.memory_utilization_ratio),
  });
}

export function decodeRequest(choices) {
  return {
    ...deployment(choices),
    batch_size: Number(choices.concurrency),
    context_tokens: Number(choices.context_tokens),
  };
}

export const rooflineRequest = (choices) => ({ decode: decodeRequest(choices) });

export const memoryRequest = (choices) => given({ ...decodeRequest(choices), engine: engineOf(choices) });

export function servingRequest(choices) {
  const observation = given({
    num_requests: optional(choices.observed_requests),
    tpot_seconds: optional(choices.observed_tpot_seconds),
    ttft_seconds: optional(choices.observed_ttft_seconds),
  });
  return given({
    ...deployment(choices),
    engine: engineOf(choices),
    workload: {
      input_tokens: Number(choices.input_tokens),
      output_tokens: Number(choices.output_tokens),
      concurrency: Number(choices.concurrency),
    },
    // How many requests it was says nothing alone.
    observation: choices.observed_tpot_seconds || choices.observed_ttft_seconds ? observation : undefined,
    explain: true,
  });
}

const sorted = (numbers) => [...new Set(numbers)].sort((a, b) => a - b);

/** Tokens that a request holds on average while it is answered: what the bound beside an estimate takes. */
export const meanContext = (choices) => Math.max(1, Math.floor(Number(choices.input_tokens) + Number(choices.output_tokens) / 2));

function grid(choices, tensors) {
  return given({
    models: [modelOf(choices)],
    accelerators: [{ name: choices.accelerator }],
    shapes: tensors.map((tensor) => ({ ...parallelismOf(choices), tensor })),
    precisions: precisionOf(choices) ? [precisionOf(choices)] : undefined,
    memory_utilization_ratio: optional(choices.memory_utilization_ratio),
  });
}

export const tensorsOf = (choices) => sorted([...TENSORS, Number(choices.tensor)]);

const loadsOf = (choices) => sorted([...CONCURRENCIES, Number(choices.concurrency)]);

export function servingSweep(choices) {
  return {
    kind: "SERVING",
    ...grid(choices, tensorsOf(choices)),
    engines: [engineOf(choices)],
    concurrencies: loadsOf(choices),
    lengths: [{ input_tokens: Number(choices.input_tokens), output_tokens: Number(choices.output_tokens) }],
  };
}

/** Bounds of the chosen shape at the given context, or of all shapes. */
export function boundSweep(choices, tensors, contextTokens) {
  return { kind: "DECODE", ...grid(choices, tensors), batch_sizes: loadsOf(choices), context_tokens: [contextTokens] };
}

export const acceleratorsOf = (choices) => [...new Set([choices.accelerator, ...choices.others.split(",").filter(Boolean)])];

export function compareRequest(choices) {
  return given({
    model: modelOf(choices),
    accelerators: acceleratorsOf(choices),
    input_tokens: Number(choices.input_tokens),
    output_tokens: Number(choices.output_tokens),
    concurrency: Number(choices.concurrency),
    parallelism: parallelismOf(choices),
    precision: precisionOf(choices),
    engine: engineOf(choices),
    ...pricesOf(choices),
  });
}

export function fleetRequest(choices) {
  const engine = engineOf(choices);
  return given({
    model: modelOf(choices),
    workloads: [
      {
        input_tokens: Number(choices.input_tokens),
        output_tokens: Number(choices.output_tokens),
        requests_per_second: { mid: Number(choices.requests_per_second) },
      },
    ],
    service_level: {
      ttft_seconds: Number(choices.ttft_seconds),
      tpot_seconds: Number(choices.tpot_seconds),
      percentile: choices.percentile,
    },
    accelerators: acceleratorsOf(choices),
    engines: engine ? [engine] : undefined,
    precision: precisionOf(choices),
    memory_utilization_ratio: optional(choices.memory_utilization_ratio),
    ...pricesOf(choices),
  });
}
