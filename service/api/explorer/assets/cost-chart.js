// What a million answer tokens cost on each accelerator: the bound as a diamond, the estimate as a dot on its range.

import { linearTicks } from "./chart.js";
import { s } from "./dom.js";
import { number } from "./format.js";

/** Below so many pixels the price stands under the name. */
const NARROW = 480;
const LINE_HEIGHT = 17;
const ROW_HEIGHT = 54;
const TOP = 52;
const SIDE = 8;
const FOOT = 50;
const TICK_ROOM = 80;
const DIAMOND = 7;

const estimateOf = (row) => row.estimated_cost_per_million_output_tokens;
const boundOf = (row) => row.bound_cost_per_million_output_tokens;
const costsOf = (row) => [boundOf(row), estimateOf(row)?.p10, estimateOf(row)?.p90].filter((cost) => cost !== undefined);

/** Which price a row goes by, in short. */
export function priceInShort(row) {
  if (row.cost_per_device_hour === undefined) return "no price";
  const per = `${number(row.cost_per_device_hour)} ${row.currency} per device-hour`;
  return row.price?.is_own ? `${per}, your own` : `${per}${row.price?.date ? `, ${row.price.date}` : ""}`;
}

/** Why a row has no mark, or lacks one; empty where it has both. */
function lackOf(row) {
  if (row.fits === false) return "does not fit";
  if (row.cost_per_device_hour === undefined) return "";
  return estimateOf(row) ? "" : "no estimate";
}

/**
 * The chart.
 *
 * @param {object[]} rows accelerators as CompareAccelerators answers
 * @param {{currency: string, chosen: string, name: string}} about the currency of all, the chosen accelerator, and what it is of
 * @param {number} width in pixels
 */
export function drawCosts(rows, { currency, chosen, name }, width) {
  const extra = width < NARROW ? LINE_HEIGHT : 0;
  const rowHeight = ROW_HEIGHT + extra;
  const height = TOP + rows.length * rowHeight + FOOT;
  const most = Math.max(...rows.flatMap(costsOf)) * 1.05;
  const place = (cost) => SIDE + (cost / most) * (width - 2 * SIDE);
  const floor = height - FOOT;
  const ticks = linearTicks(0, most, Math.max(2, Math.floor(width / TICK_ROOM)));
  return s(
    "svg",
    { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `${name}, in ${currency}. ${rows.map(told).join(". ")}` },
    legend(width),
    ticks.flatMap((tick) => [
      s("line", { class: "grid", x1: place(tick), x2: place(tick), y1: TOP - 4, y2: floor }),
      s("text", { class: "tick", x: place(tick), y: floor + 18, "text-anchor": tick === 0 ? "start" : place(tick) > width - 24 ? "end" : "middle" }, number(tick)),
    ]),
    s("path", { class: "axis", d: `M${SIDE} ${TOP - 4}V${floor}H${width - SIDE}` }),
    s("text", { class: "label", x: width / 2, y: height - 8, "text-anchor": "middle" }, `${currency} per million answer tokens`),
    rows.map((row, index) => drawRow(row, place, { top: TOP + index * rowHeight, extra, isChosen: row.accelerator === chosen })),
  );
}

function told(row) {
  const [bound, estimate] = [boundOf(row), estimateOf(row)];
  const parts = [
    bound === undefined ? "" : `at least ${number(bound)}`,
    estimate ? `estimate ${number(estimate.p50)}, from ${number(estimate.p10)} to ${number(estimate.p90)}` : "",
    lackOf(row),
    priceInShort(row),
  ];
  return `${row.accelerator}: ${parts.filter(Boolean).join(", ")}`;
}

function drawRow(row, place, { top, extra, isChosen }) {
  const middle = top + extra + 36;
  const [bound, estimate] = [boundOf(row), estimateOf(row)];
  const lack = lackOf(row);
  return s(
    "g",
    { class: "cost-row", tabindex: "0", role: "img", "aria-label": told(row) },
    s("title", {}, told(row)),
    s(
      "text",
      { class: "row-label", x: SIDE + 6, y: top + 16 },
      s("tspan", { class: isChosen ? "row-name chosen" : "row-name" }, row.accelerator),
      s("tspan", { class: "tick", ...(extra ? { x: SIDE + 6, dy: extra } : { dx: 8 }) }, [priceInShort(row), lack].filter(Boolean).join(" · ")),
    ),
    estimate ? rangeMark(place(estimate.p10), place(estimate.p50), place(estimate.p90), middle) : null,
    bound === undefined ? null : s("path", { class: "cost-mark bound", d: diamond(place(bound), middle) }),
  );
}

function rangeMark(low, mid, high, middle) {
  return [
    s("path", { class: "line estimate", d: `M${low} ${middle}H${high}M${low} ${middle - 6}v12M${high} ${middle - 6}v12` }),
    s("circle", { class: "cost-mark estimate", cx: mid, cy: middle, r: 6 }),
  ];
}

const diamond = (left, top) => `M${left} ${top - DIAMOND}l${DIAMOND} ${DIAMOND}l-${DIAMOND} ${DIAMOND}l-${DIAMOND} -${DIAMOND}z`;

/** What the marks mean, side by side where there is room. */
function legend(width) {
  const [left, top] = width < 560 ? [SIDE, 36] : [250, 14];
  return [
    s("path", { class: "cost-mark bound", d: diamond(SIDE + DIAMOND, 14) }),
    s("text", { class: "tick", x: SIDE + 22, y: 18 }, "bound: no less at this price"),
    rangeMark(left, left + 14, left + 28, top),
    s("text", { class: "tick", x: left + 36, y: top + 4 }, "estimate, in a range that holds 8 runs in 10"),
  ].flat();
}
