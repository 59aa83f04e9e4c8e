// Numbers for people: four significant digits, the prefix that suits, and a dash for what is not there.

export const MISSING = "–";
const GIB = 2 ** 30;
const PREFIXES = [["P", 1e15], ["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3]];
const plain = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 4 });
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/** 7,630 · 119.2 · 0.008388; whole numbers from 10,000 on keep all digits. */
export function number(value) {
  if (!isNumber(value)) return MISSING;
  return Math.abs(value) >= 1e4 && Math.abs(value) < 1e9 ? whole.format(value) : plain.format(value);
}

export const inGib = (bytes) => (isNumber(bytes) ? number(bytes / GIB) : MISSING);
export const gib = (bytes) => (isNumber(bytes) ? `${inGib(bytes)} GiB` : MISSING);
export const inMilliseconds = (seconds) => (isNumber(seconds) ? number(seconds * 1e3) : MISSING);
export const percent = (ratio) => (isNumber(ratio) ? `${number(ratio * 100)} %` : MISSING);

export function seconds(value) {
  if (!isNumber(value)) return MISSING;
  const size = Math.abs(value);
  if (size === 0 || size >= 1) return `${number(value)} s`;
  return size >= 1e-3 ? `${number(value * 1e3)} ms` : `${number(value * 1e6)} µs`;
}

/** A value with the decimal prefix that suits: 3.352 TB/s. */
export function prefixed(value, unit) {
  if (!isNumber(value)) return MISSING;
  const [prefix, size] = PREFIXES.find(([, each]) => Math.abs(value) >= each) ?? ["", 1];
  return `${number(value / size)} ${prefix}${unit}`;
}

/** A quantity by the name that the API gives it, which ends in its unit. */
export function named(name, value) {
  if (name.endsWith("_bytes_per_second")) return prefixed(value, "B/s");
  if (name.endsWith("_flops_per_second")) return prefixed(value, "FLOP/s");
  if (name.endsWith("_flops_per_byte")) return `${number(value)} FLOP/B`;
  if (name.endsWith("_seconds") || name.startsWith("seconds_")) return seconds(value);
  if (/_flops(_|$)/.test(name) && !name.includes("_per_")) return prefixed(value, "FLOP");
  if (/(^|_)bytes(_|$)/.test(name) && !name.includes("ratio") && !name.startsWith("num_bytes_")) return prefixed(value, "B");
  return number(value);
}

/** A figure of the catalogue in its base unit. */
export function figure(value, unit) {
  return unit === "1" || unit === "" ? number(value) : prefixed(value, unit);
}

/** MEMORY_BANDWIDTH as "memory bandwidth". */
export const words = (constant) => {
  const text = String(constant ?? "").replaceAll("_", " ").toLowerCase();
  return text.replace(/\bkv\b/, "KV").replace(/\bttft\b/, "TTFT").replace(/\btpot\b/, "TPOT").replace(/\bcuda\b/, "CUDA") || MISSING;
};

/** {tensor: 8, pipeline: 2} as "TP8 PP2". */
export function shapeName(parallelism) {
  const parts = [["tensor", "TP"], ["pipeline", "PP"], ["expert", "EP"], ["attention_data", "DP"]];
  const shown = parts.filter(([field]) => field === "tensor" || (parallelism?.[field] ?? 1) > 1);
  return shown.map(([field, short]) => `${short}${parallelism?.[field] ?? 1}`).join(" ");
}

/** What the list of engines calls it. */
export const engineName = (name) => document.querySelector(`#choices [name=engine] option[value="${CSS.escape(name)}"]`)?.text ?? name;
