// The memory budget of one device as stacked bars: what the load needs by arithmetic, and what the engine would allot.

import { post } from "./api.js";
import { h, s } from "./dom.js";
import { Figure } from "./figure.js";
import { engineName, gib, inGib, isNumber, words } from "./format.js";
import { memoryRequest } from "./requests.js";

const TOTALS = new Set(["USABLE_MEMORY", "PHYSICAL_MEMORY"]);
const BAR_HEIGHT = 44;
const TOP = 50;

const COLUMNS = [
  { key: "bar", heading: "Bar", of: (row) => row.bar },
  { key: "item", heading: "What", of: (row) => row.item, text: (row) => words(row.item) },
  { key: "basis", heading: "Basis", of: (row) => row.basis, text: (row) => words(row.basis) },
  { key: "bytes_per_device", heading: "Memory (GiB)", of: (row) => row.bytes_per_device, text: (row) => inGib(row.bytes_per_device) },
  { key: "low_bytes_per_device", heading: "At least (GiB)", of: (row) => row.low_bytes_per_device, text: (row) => inGib(row.low_bytes_per_device) },
  { key: "high_bytes_per_device", heading: "At most (GiB)", of: (row) => row.high_bytes_per_device, text: (row) => inGib(row.high_bytes_per_device) },
];

export function memoryView(body) {
  const said = h("div", { class: "statements" });
  body.append(said);
  const figure = new Figure(body, "memory");
  return {
    ask: (choices, signal) => post("/v1/kv-memory:estimate", memoryRequest(choices), signal),
    show: (answer) => {
      const bars = barsOf(answer);
      said.replaceChildren(...statements(answer));
      figure.show({
        draw: (width) => drawBars(bars, width),
        note: "The upright line is the memory of the device. What stands beyond it does not fit. ≈ marks an estimate.",
        table: { caption: "memory of one device, line by line", columns: COLUMNS, rows: bars.flatMap((bar) => bar.rows) },
      });
    },
    hide: () => {
      said.replaceChildren();
      figure.hide();
    },
  };
}

function statements(answer) {
  const sequences = isNumber(answer.max_sequences) ? `${answer.max_sequences.toLocaleString("en-US")} requests of this context fit at most.` : "";
  const lines = [answer.engine_memory?.statement, answer.shortfall?.description, sequences].filter(Boolean);
  const cures = [...(answer.shortfall?.cures ?? []), ...(answer.engine_memory?.remedies ?? [])].map((cure) => h("li", {}, cure.description));
  return [
    ...[...new Set(lines)].map((line) => h("p", {}, line)),
    cures.length ? h("p", {}, "What would cure it:") : null,
    cures.length ? h("ul", { class: "cures" }, cures) : null,
  ].filter(Boolean);
}

function barsOf(answer) {
  const bars = [barOf("What the load needs", answer.budget)];
  const engine = answer.engine_memory;
  if (engine) bars.push(barOf(`What ${engineName(engine.engine)} ${engine.version} allots`, engine.budget));
  return bars;
}

/** One bar: the device's memory, and what is stacked against it. Reserve comes last, since it is what stays free. */
function barOf(name, budget) {
  const rows = budget.map((line) => ({ bar: name, ...line }));
  const total = rows.find((row) => TOTALS.has(row.item))?.bytes_per_device;
  const stacked = rows.filter((row) => !TOTALS.has(row.item) && !row.within_reserve && row.bytes_per_device > 0);
  stacked.sort((a, b) => Number(a.item === "RESERVE") - Number(b.item === "RESERVE"));
  return { name, rows, total, stacked };
}

function drawBars(bars, width) {
  const sums = bars.map((bar) => bar.stacked.reduce((sum, row) => sum + row.bytes_per_device, 0));
  const largest = Math.max(...sums, ...bars.map((bar) => bar.total ?? 0)) * 1.03;
  const scale = (bytes) => (bytes / largest) * width;
  let top = 0;
  const drawn = bars.map((bar) => {
    const legend = legendOf(bar, width);
    const part = s("g", { transform: `translate(0 ${top})` }, drawBar(bar, scale, width), legend.element);
    top += TOP + BAR_HEIGHT + legend.height + 18;
    return part;
  });
  const description = bars.map((bar) => `${bar.name}: ${bar.stacked.map((row) => `${words(row.item)} ${gib(row.bytes_per_device)}`).join(", ")}, of ${gib(bar.total)}`).join(". ");
  return s(
    "svg",
    { xmlns: "http://www.w3.org/2000/svg", width, height: top, viewBox: `0 0 ${width} ${top}`, role: "group", "aria-label": `Memory of one device. ${description}` },
    drawn,
  );
}

function drawBar(bar, scale, width) {
  let left = 0;
  const segments = bar.stacked.map((row, place) => {
    const size = scale(row.bytes_per_device);
    const title = `${words(row.item)}: ${gib(row.bytes_per_device)}, ${words(row.basis)}`;
    const segment = s(
      "g",
      { class: `segment item-${row.item.toLowerCase()}`, tabindex: "0", role: "img", "aria-label": title },
      s("title", {}, title),
      s("rect", { x: left, y: TOP, width: Math.max(1, size - 1), height: BAR_HEIGHT }),
      size > 18 ? s("text", { class: "on-segment", x: left + 7, y: TOP + BAR_HEIGHT / 2 + 5 }, String(place + 1)) : null,
    );
    left += size;
    return segment;
  });
  const end = scale(bar.total ?? 0);
  const isLeft = end > width / 2;
  return [
    s("text", { class: "label", x: 0, y: 16 }, bar.name),
    ...segments,
    bar.total ? s("line", { class: "capacity", x1: end, x2: end, y1: TOP - 8, y2: TOP + BAR_HEIGHT + 8 }) : null,
    bar.total ? s("text", { class: "tick", x: end, y: 36, "text-anchor": isLeft ? "end" : "start" }, `device: ${gib(bar.total)}`) : null,
  ].filter(Boolean);
}

/** What the numbers on the segments mean, in as many columns as there is room for. */
function legendOf(bar, width) {
  const columns = Math.max(1, Math.floor(width / 320));
  const element = s(
    "g",
    {},
    bar.stacked.map((row, place) => {
      const left = (place % columns) * (width / columns);
      const top = TOP + BAR_HEIGHT + 24 + Math.floor(place / columns) * 20;
      return s(
        "g",
        { class: `segment item-${row.item.toLowerCase()}` },
        s("rect", { x: left, y: top - 11, width: 13, height: 13 }),
        s("text", { class: "tick", x: left + 19, y: top }, `${place + 1}  ${words(row.item)}: ${row.basis === "ESTIMATED" ? "≈ " : ""}${gib(row.bytes_per_device)}`),
      );
    }),
  );
  return { element, height: 18 + Math.ceil(bar.stacked.length / columns) * 20 };
}
