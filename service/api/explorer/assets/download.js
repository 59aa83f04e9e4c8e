// Downloads: a table as CSV, a chart as SVG or PNG. Made here, of what is shown; nothing is sent anywhere.

const DRAWN = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "font-family", "font-size", "font-weight", "text-anchor", "paint-order"];
const PNG_SCALE = 2;

/** Offers a file to save. */
export function save(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** A table as CSV: names and values exactly as the API gives them, with a mark so that spreadsheets read UTF-8. */
export function csvOf(columns, rows) {
  const parts = columns.flatMap((column) => column.parts ?? [column]);
  const lines = [parts.map((part) => part.key), ...rows.map((row) => parts.map((part) => part.of(row)))];
  return `\ufeff${lines.map((line) => line.map(cell).join(",")).join("\r\n")}\r\n`;
}

function cell(value) {
  if (value === undefined || value === null) return "";
  if (typeof value === "number") return Number.isFinite(value) ? String(value) : "";
  // What begins like a formula would be run by a spreadsheet.
  const text = /^[=+\-@\t\r]/.test(String(value)) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** The chart as a file of its own: what the style sheet gives it is written into it. */
export function svgText(chart) {
  const copy = chart.cloneNode(true);
  const shown = [chart, ...chart.querySelectorAll("*")];
  const copies = [copy, ...copy.querySelectorAll("*")];
  copies.forEach((element, place) => {
    const style = getComputedStyle(shown[place]);
    for (const property of DRAWN) element.setAttribute(property, style.getPropertyValue(property));
    element.removeAttribute("class");
    element.removeAttribute("tabindex");
  });
  const [width, height] = [chart.getAttribute("width"), chart.getAttribute("height")];
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  ground.setAttribute("width", width);
  ground.setAttribute("height", height);
  ground.setAttribute("fill", getComputedStyle(document.body).backgroundColor);
  copy.prepend(ground);
  return new XMLSerializer().serializeToString(copy);
}

/** The chart as a PNG, twice as large as on the screen. */
export async function pngOf(chart) {
  const picture = new Image();
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgText(chart))}`;
  await picture.decode();
  const canvas = document.createElement("canvas");
  canvas.width = Number(chart.getAttribute("width")) * PNG_SCALE;
  canvas.height = Number(chart.getAttribute("height")) * PNG_SCALE;
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}
