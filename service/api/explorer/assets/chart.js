// Charts on two axes, drawn as SVG at the width that there is. Colours come from the style sheet by class.

import { s } from "./dom.js";

/** Below so many pixels there is no room for every name. */
const NARROW = 480;
/** What a letter of a bold name takes at most, on average. */
const LETTER_WIDTH = 8.5;
const MARGIN = { top: 14, right: 18, bottom: 48, left: 64 };

/** A scale from values to places, logarithmic or not; its ticks are round numbers. */
export function scaleOf({ low, high, from, to, isLog }) {
  const read = isLog ? Math.log10 : (value) => value;
  const [start, end] = [read(low), read(high)];
  const place = (value) => from + ((read(value) - start) / (end - start || 1)) * (to - from);
  return { place, ticks: isLog ? logTicks(low, high) : linearTicks(low, high) };
}

function logTicks(low, high) {
  const decades = Math.log10(high / low);
  const steps = decades > 3 ? [1] : decades > 1.2 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 8];
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const step of steps) ticks.push(step * 10 ** power);
  }
  return ticks.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
}

/** Round numbers between the two, about as many as asked for. */
export function linearTicks(low, high, count = 6) {
  const rough = (high - low) / count;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((each) => each * size >= rough) * size;
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step * 1e-6; tick += step) ticks.push(tick);
  return ticks;
}

/** The ends of an axis: all values, and a little room. */
export function rangeOf(values, isLog) {
  const usable = values.filter((value) => Number.isFinite(value) && (!isLog || value > 0));
  if (!usable.length) return [1, 10];
  const [low, high] = [Math.min(...usable), Math.max(...usable)];
  if (!isLog) return [Math.min(0, low), high * 1.05 || 1];
  const room = Math.max(1.15, (high / low) ** 0.06);
  return [low / room, high * room];
}

/**
 * A chart.
 *
 * @param {object} chart
 *   name, description: for who does not see it.
 *   x, y: {label, text: value → tick, isLog}.
 *   lines: [{points: [[x, y]], class, label, isOptional?: whether the label may be left out}]; bands: [{low: [[x, y]], high: [[x, y]], class}].
 *   points: [{x, y, class, title, label?, mark?, isHollow?, isReachable?}], reachable by the keyboard unless said otherwise.
 * @param {number} width in pixels
 */
export function drawChart(chart, width) {
  const height = width < NARROW ? 340 : Math.round(Math.min(440, width * 0.56));
  const all = [...chart.lines.flatMap((line) => line.points), ...chart.points.map(({ x, y }) => [x, y])];
  const [xLow, xHigh] = rangeOf(all.map(([x]) => x), chart.x.isLog);
  const [yLow, yHigh] = rangeOf(all.map(([, y]) => y), chart.y.isLog);
  const x = scaleOf({ low: xLow, high: xHigh, from: MARGIN.left, to: width - MARGIN.right, isLog: chart.x.isLog });
  const y = scaleOf({ low: yLow, high: yHigh, from: height - MARGIN.bottom, to: MARGIN.top, isLog: chart.y.isLog });
  const path = (points) => points.map(([px, py], i) => `${i ? "L" : "M"}${x.place(px).toFixed(1)} ${y.place(py).toFixed(1)}`).join("");
  return s(
    "svg",
    { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `${chart.name}. ${chart.description}` },
    axes(chart, x, y, width, height),
    (chart.bands ?? []).map((band) => s("path", { class: `band ${band.class}`, d: `${path(band.low)}${path([...band.high].reverse()).replace("M", "L")}Z` })),
    chart.lines.map((line) => s("path", { class: `line ${line.class}`, d: path(line.points) })),
    endLabels(chart.lines, x, y, width),
    chart.points.map((point) => drawPoint(point, x.place(point.x), y.place(point.y), width)),
  );
}

function axes(chart, x, y, width, height) {
  const floor = height - MARGIN.bottom;
  const enough = (ticks, room) => ticks.filter((_, place) => place % Math.ceil(ticks.length / Math.max(2, Math.floor(room))) === 0);
  const upright = enough(x.ticks, (width - MARGIN.left) / 62).map((tick) => [
    s("line", { class: "grid", x1: x.place(tick), x2: x.place(tick), y1: MARGIN.top, y2: floor }),
    s("text", { class: "tick", x: x.place(tick), y: floor + 18, "text-anchor": "middle" }, chart.x.text(tick)),
  ]);
  const level = enough(y.ticks, floor / 32).map((tick) => [
    s("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y.place(tick), y2: y.place(tick) }),
    s("text", { class: "tick", x: MARGIN.left - 8, y: y.place(tick) + 4, "text-anchor": "end" }, chart.y.text(tick)),
  ]);
  const middle = (MARGIN.top + floor) / 2;
  return [
    ...upright.flat(),
    ...level.flat(),
    s("path", { class: "axis", d: `M${MARGIN.left} ${MARGIN.top}V${floor}H${width - MARGIN.right}` }),
    s("text", { class: "label", x: (MARGIN.left + width - MARGIN.right) / 2, y: height - 8, "text-anchor": "middle" }, chart.x.label),
    s("text", { class: "label", x: 14, y: middle, "text-anchor": "middle", transform: `rotate(-90 14 ${middle})` }, chart.y.label),
  ];
}

/** Names at the ends of lines, moved apart where they would touch. */
function endLabels(lines, x, y, width) {
  const named = lines
    .filter((line) => line.label && line.points.length && !(line.isOptional && width < NARROW))
    .map((line) => {
      const [lastX, lastY] = line.points.at(-1);
      return { line, left: Math.min(x.place(lastX) + 6, width - MARGIN.right), top: y.place(lastY) - 8 };
    })
    .sort((a, b) => a.top - b.top);
  named.forEach((each, place) => {
    const above = named.slice(0, place).filter((other) => Math.abs(other.left - each.left) < 90);
    const lowest = Math.max(...above.map((other) => other.top + 15), MARGIN.top + 4);
    each.isMoved = lowest > each.top;
    each.top = Math.max(each.top, lowest);
  });
  // A name that may be left out is, where it would be pushed into the lines.
  return named.filter(({ line, isMoved }) => !(line.isOptional && isMoved)).map(({ line, left, top }) =>
    s("text", { class: `line-label ${line.class}`, x: left, y: top, "text-anchor": left > width - 90 ? "end" : "start" }, line.label),
  );
}

function drawPoint(point, left, top, width) {
  const shape = point.mark === "diamond" ? s("path", { d: `M${left} ${top - 7}l7 7l-7 7l-7 -7z` }) : s("circle", { cx: left, cy: top, r: point.mark === "large" ? 7 : 4 });
  const place = `point ${point.class}${point.isHollow ? " hollow" : ""}`;
  const group = s("g", { class: place, tabindex: point.isReachable === false ? null : "0", role: "img", "aria-label": point.title }, s("title", {}, point.title), shape);
  if (point.label) {
    const isRight = left + 10 + point.label.length * LETTER_WIDTH < width;
    group.append(s("text", { class: "point-label", x: isRight ? left + 10 : left - 10, y: top + 16, "text-anchor": isRight ? "start" : "end" }, point.label));
  }
  return group;
}
