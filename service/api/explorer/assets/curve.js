// Throughput against latency for every shape and number of requests, the front that nothing beats, and the bound beside.

import { postForLines } from "./api.js";
import { drawChart } from "./chart.js";
import { h } from "./dom.js";
import { Figure } from "./figure.js";
import { inMilliseconds, number, seconds } from "./format.js";
import { modelName } from "./own-model.js";
import { boundSweep, meanContext, servingSweep, tensorsOf } from "./requests.js";

const LATENCIES = {
  tpot: { column: "tpot_seconds", label: "Time between tokens", low: "tpot_p10_seconds", high: "tpot_p90_seconds" },
  ttft: { column: "ttft_seconds", label: "Time to the first token", low: "ttft_p10_seconds", high: "ttft_p90_seconds" },
  end_to_end: { column: "end_to_end_seconds", label: "Time to the last token" },
  step: { column: "step_seconds", label: "Time of a step at least" },
};

const milliseconds = (key, heading, kind) => ({ key, heading: `${heading} (ms)`, kind, of: (row) => row[key], text: (row) => inMilliseconds(row[key]) });
const plainly = (key, heading, kind) => ({ key, heading, kind, of: (row) => row[key], text: (row) => number(row[key]) });
const FIRST = [
  { key: "shape", heading: "Shape", of: (row) => row.shape },
  plainly("concurrency", "Requests at once"),
];
const LAST = { key: "on_front", heading: "On the front", of: (row) => (row.isOnFront ? "yes" : "no") };

const SERVING_COLUMNS = [
  ...FIRST,
  milliseconds("tpot_seconds", "Between tokens", "estimate"),
  milliseconds("tpot_p10_seconds", "p10"),
  milliseconds("tpot_p90_seconds", "p90"),
  milliseconds("ttft_seconds", "To the first token", "estimate"),
  { key: "end_to_end_seconds", heading: "To the last token (s)", kind: "estimate", of: (row) => row.end_to_end_seconds, text: (row) => number(row.end_to_end_seconds) },
  plainly("output_tokens_per_second", "Tokens/s", "estimate"),
  plainly("output_tokens_per_second_per_device", "Tokens/s per device", "estimate"),
  plainly("output_tokens_per_second_per_user", "Tokens/s per user", "estimate"),
  LAST,
];

const BOUND_COLUMNS = [
  ...FIRST,
  milliseconds("step_seconds", "Step", "bound"),
  plainly("tokens_per_second", "Tokens/s", "bound"),
  plainly("tokens_per_second_per_device", "Tokens/s per device", "bound"),
  plainly("tokens_per_second_per_user", "Tokens/s per user", "bound"),
  { key: "fits", heading: "Fits", of: (row) => (row.fits ? "yes" : "no") },
  LAST,
];

/** The points of a sweep as rows, and what was skipped. */
export function rowsOf(parts) {
  const start = parts.find((part) => part.start).start;
  const chunks = parts.filter((part) => part.chunk).map((part) => part.chunk);
  const loads = start.kind === "SERVING" ? ["concurrencies", "concurrency_index"] : ["batch_sizes", "batch_size_index"];
  const rows = chunks.flatMap((chunk) => {
    const columns = chunk.serving ?? chunk.decode;
    return (columns?.num_devices ?? []).map((_, place) => {
      const row = Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, column[place]]));
      return { ...row, shape: start.shapes[row.shape_index], concurrency: start[loads[0]][row[loads[1]]] };
    });
  });
  const reasons = new Map();
  for (const each of chunks.flatMap((chunk) => chunk.skipped)) {
    reasons.set(each.description, [...(reasons.get(each.description) ?? []), start.shapes[each.shape_index]]);
  }
  return { rows, skipped: [...reasons].map(([description, shapes]) => `${[...new Set(shapes)].join(", ")}: ${description}`) };
}

/** Marks the rows that no other beats in both: less latency and more throughput. */
export function markFront(rows, latency, throughput) {
  let best = -Infinity;
  const inOrder = [...rows].sort((a, b) => a[latency] - b[latency] || b[throughput] - a[throughput]);
  for (const row of inOrder) {
    row.isOnFront = row[throughput] > best;
    best = Math.max(best, row[throughput]);
  }
  return inOrder.filter((row) => row.isOnFront);
}

export function curveView(body) {
  const said = h("div", { class: "statements" });
  body.append(said);
  const figure = new Figure(body, "throughput-latency");
  return {
    ask: asked,
    show: ([parts, boundParts], choices) => {
      const { rows, skipped } = rowsOf(parts);
      const chosen = tensorsOf(choices).indexOf(Number(choices.tensor));
      said.replaceChildren(skipped.length ? h("ul", { class: "hint" }, skipped.map((text) => h("li", {}, text))) : "");
      const plot = plotOf(choices, rows, chosen, boundParts);
      if (plot.rows.length) figure.show(plot);
      else figure.hide();
    },
    hide: () => {
      said.replaceChildren();
      figure.hide();
    },
  };
}

function asked(choices, signal) {
  const sweep = (request) => postForLines("/v1/sweeps:run", request, signal);
  if (!choices.engine) return Promise.all([sweep(boundSweep(choices, tensorsOf(choices), Number(choices.context_tokens)))]);
  return Promise.all([sweep(servingSweep(choices)), sweep(boundSweep(choices, [Number(choices.tensor)], meanContext(choices)))]);
}

function plotOf(choices, rows, chosen, boundParts) {
  const isEstimate = Boolean(choices.engine);
  // An answer of one token has no time between tokens.
  const wanted = isEstimate ? (choices.latency === "tpot" && choices.output_tokens === "1" ? "ttft" : choices.latency) : "step";
  const latency = LATENCIES[wanted] ?? LATENCIES.tpot;
  const throughput = isEstimate ? "output_tokens_per_second_per_device" : "tokens_per_second_per_device";
  const usable = isEstimate ? rows : rows.filter((row) => row.fits);
  rows.forEach((row) => (row.isOnFront = false));
  const front = markFront(usable, latency.column, throughput);
  const isChosen = (row) => row.shape_index === chosen && row.concurrency === Number(choices.concurrency);
  const bounds = isEstimate && wanted === "tpot" ? rowsOf(boundParts).rows.filter((row) => row.fits) : [];
  const axes = { x: (row) => row[latency.column], y: (row) => row[throughput] };
  return {
    rows: usable,
    draw: (width) => drawChart(chartOf({ choices, latency, usable, front, bounds, chosen, isChosen, axes, isEstimate }), width),
    note: noteOf(choices, isEstimate, bounds.length > 0),
    table: { caption: "every shape and number of requests", columns: isEstimate ? SERVING_COLUMNS : BOUND_COLUMNS, rows, highlight: isChosen },
  };
}

function noteOf(choices, isEstimate, hasBound) {
  const front = "The thick line is the Pareto front: no shown point is better in both directions.";
  if (!isEstimate) return `Bounds at a context of ${number(Number(choices.context_tokens))} tokens, for all that fits. ${front}`;
  const bound = hasBound ? ` The dashed line is the bound of the chosen shape at ${number(meanContext(choices))} tokens, what a request holds on average.` : "";
  const measured = choices.observed_tpot_seconds || choices.observed_ttft_seconds;
  const correction = measured ? " What you measured corrects the answer above, not these points." : "";
  return `Estimates; the band holds eight runs in ten of the chosen shape. ${front}${bound}${correction}`;
}

function chartOf({ choices, latency, usable, front, bounds, chosen, isChosen, axes, isEstimate }) {
  const shapes = [...new Set(usable.map((row) => row.shape_index))];
  const kind = isEstimate ? "estimate" : "bound";
  const lines = shapes.map((shape) => {
    const rows = usable.filter((row) => row.shape_index === shape);
    return { points: rows.map((row) => [axes.x(row), axes.y(row)]), class: `${kind} ${shape === chosen ? "chosen" : "other"}`, label: rows[0].shape };
  });
  lines.push({ points: front.map((row) => [axes.x(row), axes.y(row)]), class: "front", label: "Pareto front", isOptional: true });
  if (bounds.length) {
    lines.push({ points: bounds.map((row) => [row.step_seconds, row.tokens_per_second_per_device]), class: "bound dashed", label: "bound" });
  }
  return {
    name: `Throughput and latency of ${modelName(choices)} on ${choices.accelerator}`,
    description: `${usable.length} points, ${front.length} of them on the Pareto front; the table below holds the numbers.`,
    x: { label: `${latency.label} (ms)`, text: inMilliseconds, isLog: true },
    y: { label: "Tokens per second and device", text: number, isLog: true },
    lines: lines.filter((line) => line.points.length),
    bands: latency.low && isEstimate ? bandsOf(usable.filter((row) => row.shape_index === chosen), latency) : [],
    points: usable.map((row) => pointOf(row, { kind, axes, isChosen: isChosen(row), isEstimate })),
  };
}

/** Between the slow and the fast end of the estimate's range; none where the chosen shape has no points. */
function bandsOf(rows, latency) {
  if (!rows.length) return [];
  const slow = rows.map((row) => [row[latency.high], row.output_tokens_per_second_p10 / row.num_devices]);
  const fast = rows.map((row) => [row[latency.low], row.output_tokens_per_second_p90 / row.num_devices]);
  return [{ low: slow, high: fast, class: "estimate" }];
}

function pointOf(row, { kind, axes, isChosen, isEstimate }) {
  const load = `${number(row.concurrency)} requests at once`;
  return {
    x: axes.x(row),
    y: axes.y(row),
    class: `${kind}${isChosen ? " chosen" : ""}${row.isOnFront ? " on-front" : ""}`,
    mark: isChosen ? "large" : "small",
    label: isChosen ? `${row.shape}, ${number(row.concurrency)} at once` : "",
    isReachable: isChosen || row.isOnFront,
    title: `${row.shape}, ${load}: ${seconds(axes.x(row))}, ${number(axes.y(row))} tokens/s per device (${isEstimate ? "estimate" : "bound"})${row.isOnFront ? ", on the Pareto front" : ""}`,
  };
}
