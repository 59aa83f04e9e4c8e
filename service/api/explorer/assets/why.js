// Why the answer is what it is: formulas with their inputs, figures with their sources, limits and assumptions.

import { datum, h, kindBadge } from "./dom.js";
import { Figure, tableOf } from "./figure.js";
import { figure as catalogueFigure, named, number, words } from "./format.js";

const STEP_COLUMNS = [
  { key: "of", heading: "Of", of: (row) => row.of },
  { key: "name", heading: "Quantity", of: (row) => row.name },
  { key: "value", heading: "Value", of: (row) => row.value, text: (row) => named(row.name, row.value) },
  { key: "expression", heading: "Formula", of: (row) => row.expression },
  { key: "inputs", heading: "Inputs", of: (row) => Object.entries(row.inputs).map(([name, value]) => `${name} = ${value}`).join("; ") },
  { key: "source", heading: "Source", of: (row) => row.source },
];

const FIGURE_COLUMNS = [
  { key: "name", heading: "Figure", of: (row) => row.name, text: (row) => row.name.replaceAll("_", " ") },
  { key: "value", heading: "Value", of: (row) => row.value, text: (row) => catalogueFigure(row.value, row.unit) },
  { key: "unit", heading: "Base unit", of: (row) => row.unit },
  { key: "basis", heading: "Basis", of: (row) => row.basis },
  { key: "sources", heading: "Sources", of: (row) => row.sources.join("; ") },
  { key: "note", heading: "Note", of: (row) => row.note },
];

const LIMIT_COLUMNS = [
  { key: "limit", heading: "Limit", of: (row) => row.limit, text: (row) => words(row.limit) },
  { key: "binds_from_batch_size", heading: "From a batch of", of: (row) => row.binds_from_batch_size, text: (row) => number(row.binds_from_batch_size) },
  { key: "description", heading: "How", of: (row) => row.description },
];

export function whyView(body) {
  const said = h("div", { class: "statements" });
  body.append(said);
  const steps = new Figure(body, "formulas", { isChart: false });
  const figures = new Figure(body, "sources", { isChart: false, isOpen: true });
  return {
    show: (decode, serving) => {
      said.replaceChildren(...contentOf(decode, serving));
      const explained = [["bound", decode.explanation], ["estimate", serving?.estimate && serving.explanation]].filter(([, each]) => each);
      steps.show({ table: { caption: "all formulas", columns: STEP_COLUMNS, rows: explained.flatMap(([of, each]) => each.steps.map((step) => ({ of, ...step }))) } });
      const all = explained.flatMap(([, each]) => each.figures);
      const once = [...new Map(all.map((each) => [each.name, each])).values()];
      figures.show({ table: { caption: "figures of the catalogue and their sources", columns: FIGURE_COLUMNS, rows: once } });
    },
    hide: () => {
      said.replaceChildren();
      steps.hide();
      figures.hide();
    },
  };
}

function contentOf(decode, serving) {
  const parts = [tableOf({ caption: "what binds, and from which batch on", columns: LIMIT_COLUMNS, rows: decode.limits }), chain("Bound and expected step", "bound", decode.explanation)];
  if (serving?.estimate) parts.push(chain(`Estimate by the calibration ${serving.estimate.calibration}`, "estimate", serving.explanation));
  const assumed = [...new Set([...decode.assumptions, ...(serving?.assumptions ?? [])])];
  return [...parts, h("h3", {}, "What was assumed"), h("ul", { class: "assumptions" }, assumed.map((text) => h("li", {}, text)))];
}

/** The formulas in the order in which they were applied; each opens to what went in. */
function chain(title, kind, explanation) {
  const steps = explanation.steps.map((step) =>
    h(
      "li",
      {},
      h(
        "details",
        { class: "step" },
        h("summary", {}, h("code", {}, step.name), " = ", datum(step.value, named(step.name, step.value))),
        h("p", {}, step.meaning),
        h("p", {}, h("code", {}, step.expression)),
        h("ul", { class: "inputs" }, Object.entries(step.inputs).map(([name, value]) => h("li", {}, h("code", {}, name), " = ", datum(value, named(name, value))))),
        h("p", { class: "hint" }, `Source: ${step.source}`),
      ),
    ),
  );
  return h("div", {}, h("h3", {}, title, " ", kindBadge(kind)), h("ol", { class: "steps" }, steps));
}
