// What is wrong, where, and what would help.

import { h } from "./dom.js";

const CONTROLS = {
  "model.name": "model", "accelerator.name": "accelerator", "engine.name": "engine", "engine.version": "engine_version",
  batch_size: "concurrency", num_requests: "observed_requests",
  "observation.tpot_seconds": "observed_tpot_seconds", "observation.ttft_seconds": "observed_ttft_seconds",
};

/** The control that a field of a request comes from; undefined where there is none. */
export function controlOf(form, field) {
  const path = field.replace(/\[\d+\]/g, "").replace(/^decode\./, "");
  return form.elements[CONTROLS[path] ?? path.split(".").at(-1)] ?? undefined;
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

/** Marks the controls that the text is about, and no others. */
export function mark(form, controls, describedBy) {
  for (const control of form.elements) {
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
