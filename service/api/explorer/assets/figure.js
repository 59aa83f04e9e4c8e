// One figure: a chart, the table behind it, and downloads of both. It stays while its contents change, so that what is
// opened stays open and the keyboard stays where it is.

import { csvOf, pngOf, save, svgText } from "./download.js";
import { datum, h, kindBadge } from "./dom.js";

/** A table. Columns: {key: the API's name, heading, of: row → value, text: row → what is shown, kind?, parts?: columns of the CSV}. */
export function tableOf({ caption, columns, rows, highlight = () => false }) {
  const head = columns.map((column) => h("th", { scope: "col" }, column.heading, column.kind && kindBadge(column.kind)));
  const body = rows.map((row) =>
    h(
      "tr",
      { class: highlight(row) ? "chosen" : null },
      columns.map((column, place) => {
        const shown = column.text ? column.text(row) : String(column.of(row) ?? "–");
        const isNumeric = typeof column.of(row) === "number";
        const content = isNumeric ? datum(column.of(row), shown) : shown;
        return place === 0 ? h("th", { scope: "row" }, content) : h("td", { class: isNumeric ? "number" : shown.length > 30 ? "long" : null }, content);
      }),
    ),
  );
  const table = h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, head)), h("tbody", {}, body));
  // Wide tables scroll in a frame that the keyboard can reach.
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, table);
}

export class Figure {
  /**
   * @param {Element} place where it goes
   * @param {string} name of the downloaded files, and of the figure
   * @param {{isChart?: boolean, isOpen?: boolean}} options whether there is a chart, and whether the table shows at once
   */
  constructor(place, name, { isChart = true, isOpen = false } = {}) {
    this.name = name;
    this.width = 0;
    this.chart = isChart ? h("div", { class: "chart" }) : null;
    this.table = h("details", { class: "table", open: isOpen });
    this.buttons = h("p", { class: "downloads" }, isChart ? ["CSV", "SVG", "PNG"].map((kind) => this.button(kind)) : this.button("CSV"));
    this.note = h("p", { class: "hint" });
    this.element = h("figure", { id: `figure-${name}`, hidden: true }, this.chart, this.note, this.table, this.buttons);
    place.append(this.element);
    if (isChart) new ResizeObserver(() => this.redraw()).observe(this.chart);
  }

  button(kind) {
    const label = `Download ${this.name} as ${kind}`;
    return h("button", { type: "button", "data-kind": kind, "aria-label": label, onclick: () => this.download(kind) }, kind);
  }

  async download(kind) {
    const drawing = this.chart?.querySelector("svg");
    const file = `tonnage-${this.name}.${kind.toLowerCase()}`;
    if (kind === "CSV") save(file, new Blob([csvOf(this.content.table.columns, this.content.table.rows)], { type: "text/csv" }));
    else if (kind === "SVG") save(file, new Blob([svgText(drawing)], { type: "image/svg+xml" }));
    else save(file, await pngOf(drawing));
  }

  /** Shows content: {draw: width → svg, null where there is nothing to draw; table, note}. */
  show(content) {
    this.content = content;
    this.element.hidden = false;
    this.note.textContent = content.note ?? "";
    this.note.hidden = !content.note;
    this.table.replaceChildren(h("summary", {}, this.chart ? `Table: ${content.table.caption}` : content.table.caption), tableOf(content.table));
    for (const button of this.buttons.querySelectorAll("button:not([data-kind=CSV])")) button.hidden = !content.draw;
    if (!content.draw) this.chart?.replaceChildren();
    this.width = 0;
    this.redraw();
  }

  hide() {
    this.element.hidden = true;
  }

  redraw() {
    const width = Math.floor(this.chart?.clientWidth ?? 0);
    if (!this.content?.draw || width < 50 || width === this.width) return;
    this.width = width;
    this.chart.replaceChildren(this.content.draw(width));
  }
}
