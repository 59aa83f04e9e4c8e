// What is wrong, where, and what would help.

import { h } from "./dom.js";
import { OWN } from "./own-model.js";

const CONTROLS = {
  "model.name": "model", "accelerator.name": "accelerator", "engine.name": "engine", "engine.version": "engine_version",
  "price_list.exchange_rates": "usd_rate", "price_list.exchange_rates.rate": "usd_rate", "price_list.exchange_rates.date": "usd_rate_date",
  batch_size: "concurrency", num_requests: "observed_requests",
  "observation.tpot_seconds": "observed_tpot_seconds", "observation.ttft_seconds": "observed_ttft_seconds",
};

/** What of a request is a pasted config.json, whatever stands in it. */
const PASTED = /^models?\.hf_config(\.|$)/;

/** The control that a field of a request comes from; undefined where there is none. */
function controlOf(form, field) {
  const path = field.replace(/\[\d+\]/g, "").replace(/^decode\./, "");
  return form.elements[PASTED.test(path) ? "hf_config" : (CONTROLS[path] ?? path.split(".").at(-1))] ?? undefined;
}

/** The controls that an error is about. A body that is too large or too deep as a whole is so by what was pasted. */
export function controlsOf(form, { field, violations = [], status }) {
  const fields = [field, ...violations.map((each) => each.field)].filter(Boolean);
  const isPasted = !fields.length && [400, 413].includes(status) && form.elements.model.value === OWN;
  return isPasted ? [form.elements.hf_config] : [...new Set(fields.map((each) => controlOf(form, each)).filter(Boolean))];
}

/** An error as elements. Where take is given, a nearest name is a button that takes it: take(name). */
export function problemOf(error, take) {
  const found = error.violations?.length ? error.violations.map((each) => `${each.field}: ${each.description}`) : [error.message];
  const remedy = error.remedy && !found.some((text) => text.includes(error.remedy)) ? error.remedy : "";
  return [
    ...[...new Set(found)].map((text) => h("p", {}, text)),
    remedy ? h("p", {}, `What helps: ${remedy}`) : null,
    take && error.nearest?.length
      ? h("p", {}, "Take instead: ", error.nearest.map((name) => h("button", { type: "button", onclick: () => take(name) }, name)))
      : null,
  ].filter(Boolean);
}

/** Repeats what is wrong beside the controls that have a place for it. */
export function sayBeside(form, controls, texts) {
  for (const place of form.querySelectorAll("[data-beside]")) {
    const isMeant = controls.includes(form.elements[place.dataset.beside]);
    place.replaceChildren(...(isMeant ? texts.map((text) => h("span", {}, text)) : []));
  }
}

/** Marks those of all controls that the text is about, and no others. */
export function mark(all, controls, describedBy) {
  for (const control of all) {
    if (controls.includes(control)) {
      control.setAttribute("aria-invalid", "true");
      control.setAttribute("aria-describedby", describedBy);
      control.closest("details")?.setAttribute("open", "");
    } else if (control.hasAttribute("aria-invalid")) {
      control.removeAttribute("aria-invalid");
      control.removeAttribute("aria-describedby");
    }
  }
}
