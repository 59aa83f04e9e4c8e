// The answer in short: does it fit, the bound, the expected step, the estimate, and what was observed. Each says which it is.

import { datum, h, kindBadge } from "./dom.js";
import { engineName, isNumber, number, percent, seconds, words } from "./format.js";

export function answerView(body) {
  return {
    show: (decode, serving, memory, choices) => {
      const shown = [fitCard(decode, memory), boundCard(decode), expectedCard(decode), estimateCard(serving, choices), observedCard(serving)];
      body.replaceChildren(h("div", { class: "cards" }, shown.filter(Boolean)));
    },
    hide: () => body.replaceChildren(),
  };
}

function card(title, kind, rows, note) {
  const list = rows.map(([name, value, text, range]) =>
    h("div", {}, h("dt", {}, name), h("dd", { class: isNumber(value) ? "number" : null }, datum(value, text), range ? h("small", {}, ` ${range}`) : null)),
  );
  return h("section", { class: `card ${kind ?? ""}` }, h("h3", {}, title, " ", kind ? kindBadge(kind) : null), h("dl", {}, list), note);
}

function fitCard(decode, memory) {
  const engine = memory?.engine_memory;
  const fits = decode.fits;
  const rows = [["Weights and cache", String(fits ?? ""), fits === undefined ? "not known" : fits ? "fit" : "do not fit"]];
  if (engine) rows.push([`${engineName(engine.engine)} ${engine.version}`, engine.outcome, words(engine.outcome)]);
  if (isNumber(memory?.max_sequences)) rows.push(["Requests that fit", memory.max_sequences, number(memory.max_sequences)]);
  rows.push(["Devices", decode.num_devices, number(decode.num_devices)]);
  return card("Does it fit?", null, rows, decode.shortfall ? shortfall(decode.shortfall) : null);
}

function shortfall({ description, cures }) {
  return h("div", { class: "hint" }, h("p", {}, `${description}.`), cures.length ? "What would cure it:" : "", h("ul", {}, cures.map((cure) => h("li", {}, cure.description))));
}

const hint = (text) => h("p", { class: "hint" }, text);

function boundCard({ bound }) {
  return card("A step, at the very best", "bound", [
    ["Tokens/s at most", bound.tokens_per_second, number(bound.tokens_per_second)],
    ["Per user", bound.tokens_per_second_per_user, number(bound.tokens_per_second_per_user)],
    ["Per device", bound.tokens_per_second_per_device, number(bound.tokens_per_second_per_device)],
    ["Step at least", bound.step_seconds, seconds(bound.step_seconds)],
    ["Bound by", bound.binding_limit, words(bound.binding_limit)],
  ]);
}

function expectedCard({ expected }) {
  return card("A step, as expected", "expected", [
    ["Tokens/s", expected.expected_tokens_per_second, number(expected.expected_tokens_per_second)],
    ["Per user", expected.expected_tokens_per_second_per_user, number(expected.expected_tokens_per_second_per_user)],
    ["Step", expected.expected_step_seconds, seconds(expected.expected_step_seconds)],
  ]);
}

function interval(name, value, text) {
  return [name, value?.p50, text(value?.p50), value ? `${text(value.p10)} to ${text(value.p90)}` : ""];
}

function estimateCard(serving, choices) {
  if (!choices.engine) return null;
  const estimate = serving?.estimate;
  if (!estimate) return card("What the engine serves", "estimate", [], hint(serving ? `No estimate: ${serving.no_estimate_reason}.` : "No estimate."));
  const rows = [
    interval("Tokens/s", estimate.output_tokens_per_second, number),
    interval("Per device", estimate.output_tokens_per_second_per_device, number),
    interval("Between tokens", estimate.tpot_seconds, seconds),
    interval("To first token", estimate.ttft_seconds, seconds),
    interval("Requests/s", estimate.requests_per_second, number),
  ].filter(([, value]) => isNumber(value));
  const basis = estimate.calibration_basis === "MEASURED" ? "rests on runs of this engine on this generation" : "no such runs: the engine elsewhere, and kernels here";
  return card("What the engine serves", "estimate", rows, hint(`Calibration ${estimate.calibration}: ${basis}. ${serving.saturation}`));
}

function observedCard(serving) {
  const correction = serving?.estimate?.correction;
  if (!correction) return null;
  const { observation } = correction;
  const rows = [
    ["Between tokens", observation.tpot_seconds, seconds(observation.tpot_seconds)],
    ["To first token", observation.ttft_seconds, seconds(observation.ttft_seconds)],
    ["Requests", observation.num_requests, number(observation.num_requests)],
    ["Moved time between tokens to", correction.tpot_ratio, percent(correction.tpot_ratio)],
    ["Moved time to first token to", correction.ttft_ratio, percent(correction.ttft_ratio)],
  ].filter(([, value]) => isNumber(value));
  return card("What you measured", "observed", rows);
}
