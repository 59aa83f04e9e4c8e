// What is chosen: in the form, and in the address, so that a link shows the same again.

/** Every choice with what holds where nothing is chosen. The address names all that are asked first, of the others what differs. */
export const CHOICES = {
  model: { initial: "llama-3.1-70b", isFirst: true },
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
};

const MORE = ["pipeline", "expert", "attention_data", "engine_version", "weights", "kv_cache", "compute"].concat(
  ["memory_utilization_ratio", "observed_tpot_seconds", "observed_ttft_seconds", "observed_requests"],
);

/** The choices of an address, as strings. */
export function fromAddress(search) {
  const query = new URLSearchParams(search);
  return Object.fromEntries(
    Object.entries(CHOICES).map(([name, { initial }]) => [name, query.has(name) ? query.get(name) : String(initial)]),
  );
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
  if (MORE.some((name) => choices[name] !== String(CHOICES[name].initial))) form.querySelector("#more").open = true;
}

/** The choices as they stand in the form; others are the ticked accelerators. */
export function fromForm(form, others) {
  const chosen = Object.keys(CHOICES).map((name) => [name, form.elements[name] ? form.elements[name].value.trim() : ""]);
  return { ...Object.fromEntries(chosen), others: others.join(",") };
}

/** What is wrong with what is typed, by the browser's own rules: [{control, text}]. */
export function mistakes(form) {
  return Object.keys(CHOICES)
    .map((name) => form.elements[name])
    .filter((control) => control?.validity && !control.validity.valid)
    .map((control) => ({ control, text: `${labelOf(control)}: ${control.validationMessage}` }));
}

export function labelOf(control) {
  const label = control.labels?.[0];
  return label ? [...label.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE).map((node) => node.data).join("").trim() : control.name;
}
