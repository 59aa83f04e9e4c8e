// What is chosen: in the form, and in the address, so that a link shows the same again.

import { compact } from "./own-model.js";

/** Every choice with what holds where nothing is chosen. The address names all that are asked first, of the others what differs. */
export const CHOICES = {
  model: { initial: "llama-3.1-70b", isFirst: true }, // empty: the config.json that was pasted
  hf_config: { initial: "" },
  accelerator: { initial: "h100-sxm", isFirst: true },
  tensor: { initial: 8, isFirst: true },
  engine: { initial: "vllm", isFirst: true },
  concurrency: { initial: 64, isFirst: true },
  context_tokens: { initial: 4096, isFirst: true },
  input_tokens: { initial: 1024, isFirst: true },
  output_tokens: { initial: 1024, isFirst: true },
  pipeline: { initial: 1 },
  expert: { initial: 1 },
  attention_data: { initial: 1 },
  engine_version: { initial: "" },
  weights: { initial: "" },
  kv_cache: { initial: "" },
  compute: { initial: "" },
  memory_utilization_ratio: { initial: "" },
  observed_tpot_seconds: { initial: "" },
  observed_ttft_seconds: { initial: "" },
  observed_requests: { initial: "" },
  latency: { initial: "tpot" },
  others: { initial: "h200-sxm,mi300x,b200" },
  requests_per_second: { initial: 50 },
  ttft_seconds: { initial: 1 },
  tpot_seconds: { initial: 0.05 },
  percentile: { initial: "P90" },
  prices: { initial: "" }, // of one's own, as "h100-sxm:2.5,mi300x:1.99"
  currency: { initial: "USD" },
  usd_rate: { initial: "" },
  usd_rate_date: { initial: "" },
};

/** A pasted config.json that makes an address longer than this is left out of it: what passes links on cuts longer ones. */
const MAX_ADDRESS_LENGTH = 8000;

const MORE = ["pipeline", "expert", "attention_data", "engine_version", "weights", "kv_cache", "compute"].concat(
  ["memory_utilization_ratio", "observed_tpot_seconds", "observed_ttft_seconds", "observed_requests"],
);

const PRICING = ["prices", "currency", "usd_rate", "usd_rate_date"];

/** The choices of an address, as strings. */
export function fromAddress(search) {
  const query = new URLSearchParams(search);
  return Object.fromEntries(
    Object.entries(CHOICES).map(([name, { initial }]) => [name, query.has(name) ? query.get(name) : String(initial)]),
  );
}

/** The address of the choices, and whether all of them are in it. */
export function linkTo(choices) {
  const address = toAddress(choices);
  const isWhole = address.length <= MAX_ADDRESS_LENGTH || !choices.hf_config;
  return { address: isWhole ? address : toAddress({ ...choices, hf_config: "" }), isWhole };
}

/** The address of the choices: a path with a query. */
export function toAddress(choices) {
  const query = new URLSearchParams();
  for (const [name, { initial, isFirst }] of Object.entries(CHOICES)) {
    if (isFirst || choices[name] !== String(initial)) query.set(name, choices[name]);
  }
  return `/?${query}`;
}

/** Puts choices into the form. A name that is not offered is added to its list: the service will say what is nearest. */
export function toForm(form, choices) {
  for (const name of Object.keys(CHOICES)) {
    const control = form.elements[name];
    if (!control) continue;
    if (control.tagName === "SELECT" && ![...control.options].some((option) => option.value === choices[name])) {
      control.append(new Option(choices[name], choices[name]));
    }
    control.value = choices[name];
  }
  if (PRICING.some((name) => choices[name] !== String(CHOICES[name].initial))) document.querySelector("#own-prices").open = true;
  if (MORE.some((name) => choices[name] !== String(CHOICES[name].initial))) form.querySelector("#more").open = true;
}

/** The choices as they stand in the form; others are the ticked accelerators, prices those of one's own. */
export function fromForm(form, others, prices) {
  const chosen = Object.keys(CHOICES).map((name) => [name, form.elements[name] ? form.elements[name].value.trim() : ""]);
  const choices = { ...Object.fromEntries(chosen), others: others.join(","), prices };
  return { ...choices, hf_config: choices.model ? "" : compact(choices.hf_config) };
}

/** What is wrong with what is typed, by the browser's own rules: [{control, text}]. */
export function mistakes(form, others) {
  return [...Object.keys(CHOICES).map((name) => form.elements[name]), ...others]
    .filter((control) => control?.validity && !control.validity.valid)
    .map((control) => ({ control, text: `${labelOf(control)}: ${control.validationMessage}` }));
}

export function labelOf(control) {
  const label = control.labels?.[0];
  return label ? [...label.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE).map((node) => node.data).join("").trim() : control.name;
}
