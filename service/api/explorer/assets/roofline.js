// The roofline with the working point: DrawRoofline's roofs and points, drawn here.

import { post } from "./api.js";
import { drawChart } from "./chart.js";
import { Figure } from "./figure.js";
import { number, prefixed, words } from "./format.js";
import { modelName } from "./own-model.js";
import { rooflineRequest } from "./requests.js";

const COLUMNS = [
  { key: "label", heading: "Point", of: (row) => row.label },
  { key: "precision", heading: "Format", of: (row) => row.precision },
  {
    key: "arithmetic_intensity_flops_per_byte",
    heading: "Intensity (FLOP/B)",
    of: (row) => row.arithmetic_intensity_flops_per_byte,
    text: (row) => number(row.arithmetic_intensity_flops_per_byte),
  },
  {
    key: "bound_flops_per_second",
    heading: "At most (TFLOP/s)",
    kind: "bound",
    of: (row) => row.bound_flops_per_second,
    text: (row) => number(row.bound_flops_per_second / 1e12),
  },
];

const isAsked = (point) => point.label.includes("as asked");
const fits = (point) => !point.label.includes("does not fit");

export function rooflineView(body) {
  const figure = new Figure(body, "roofline");
  return {
    ask: (choices, signal) => post("/v1/rooflines:draw", rooflineRequest(choices), signal),
    show: ({ roofs, points }, choices) =>
      figure.show({
        draw: (width) => drawChart(chartOf(roofs, points, choices), width),
        note: noteOf(roofs, points),
        table: { caption: "points under the roofline", columns: COLUMNS, rows: points, highlight: isAsked },
      }),
    hide: () => figure.hide(),
  };
}

function noteOf(roofs, points) {
  const asked = points.find(isAsked);
  const roof = roofs.find((each) => each.precision === asked?.precision) ?? roofs[0];
  if (!asked || !roof) return "";
  const intensity = asked.arithmetic_intensity_flops_per_byte;
  const binds = intensity < roof.ridge_point_flops_per_byte ? "memory bandwidth" : "arithmetic";
  const where = intensity < roof.ridge_point_flops_per_byte ? "left" : "right";
  return `As asked: ${number(intensity)} FLOP per byte, ${where} of the ridge at ${number(roof.ridge_point_flops_per_byte)}: ${binds} sets the limit. Hollow points do not fit the memory.`;
}

function chartOf(roofs, points, choices) {
  const intensities = points.map((point) => point.arithmetic_intensity_flops_per_byte);
  const low = Math.min(...intensities) / 1.5;
  const high = Math.max(...intensities, ...roofs.map((roof) => roof.ridge_point_flops_per_byte)) * 4;
  return {
    name: `Roofline of ${modelName(choices)} on ${choices.accelerator}`,
    description: `${points.length} batch sizes; the table below holds the numbers.`,
    x: { label: "Operations per byte read (FLOP/B)", text: number, isLog: true },
    y: { label: "Operations per second (FLOP/s)", text: (value) => prefixed(value, ""), isLog: true },
    lines: roofs.map((roof) => roofLine(roof, low, high)),
    points: points.map((point) => ({
      x: point.arithmetic_intensity_flops_per_byte,
      y: point.bound_flops_per_second,
      class: isAsked(point) ? "bound chosen" : "bound",
      mark: isAsked(point) ? "large" : "small",
      label: isAsked(point) ? point.label.replace(" (as asked)", "").replace(", does not fit", "") : "",
      isHollow: !fits(point),
      title: `${point.label}: ${number(point.arithmetic_intensity_flops_per_byte)} FLOP per byte, at most ${prefixed(point.bound_flops_per_second, "FLOP/s")}`,
    })),
  };
}

function roofLine(roof, low, high) {
  const peak = roof.peak_dense_flops_per_second;
  const at = (intensity) => Math.min(peak, intensity * roof.memory_bandwidth_bytes_per_second);
  const ridge = roof.ridge_point_flops_per_byte;
  return {
    points: [[low, at(low)], ...(ridge > low ? [[ridge, peak]] : []), [high, peak]],
    class: "roof",
    label: `${words(roof.precision)}: ${prefixed(peak, "FLOP/s")}`,
  };
}
