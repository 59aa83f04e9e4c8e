// Prices of one's own: what each compared accelerator costs by the hour, beside the currency of all costs.

import { h } from "./dom.js";

const PUBLISHED_CURRENCY = "USD";

/** "h100-sxm:2.5,mi300x:1.99" as [["h100-sxm", "2.5"], …]. */
function pairsOf(text) {
  const places = text.split(",").map((pair) => [pair, pair.lastIndexOf(":")]);
  return places.filter(([, place]) => place > 0).map(([pair, place]) => [pair.slice(0, place), pair.slice(place + 1)]);
}

export class PriceFields {
  /** @param {Element} list where the fields go, one for each accelerator */
  constructor(list) {
    this.list = list;
    this.fields = new Map();
  }

  /** Shows a field for each of these accelerators; what was typed for others is kept and not asked with. */
  show(names) {
    const labels = names.map((name) => this.field(name).closest("label"));
    if (labels.every((label, place) => label === this.list.children[place]) && labels.length === this.list.children.length) return;
    this.list.replaceChildren(...labels);
  }

  field(name) {
    if (!this.fields.has(name)) {
      const limits = { min: "0.000001", max: "1000000", step: "any", inputmode: "decimal", placeholder: "as published" };
      const input = h("input", { type: "number", "data-accelerator": name, ...limits });
      h("label", {}, `${name} `, input);
      this.fields.set(name, input);
    }
    return this.fields.get(name);
  }

  get shown() {
    return [...this.list.querySelectorAll("input")];
  }

  /** What is typed, as one choice. */
  get text() {
    return this.shown.filter((input) => input.value !== "").map((input) => `${input.dataset.accelerator}:${input.value}`).join(",");
  }

  /** Puts the prices of an address into the fields. */
  restore(text) {
    for (const input of this.fields.values()) input.value = "";
    for (const [name, value] of pairsOf(text)) this.field(name).value = value;
  }
}

/** Prices, currency and rate as CompareAccelerators and PlanFleet take them. */
export function pricesOf(choices) {
  const { currency } = choices;
  const prices = pairsOf(choices.prices).map(([accelerator, value]) => ({ accelerator, amount_per_hour: Number(value), currency }));
  const rate = { from_currency: PUBLISHED_CURRENCY, to_currency: currency, rate: Number(choices.usd_rate), date: choices.usd_rate_date };
  const list = { ...(prices.length && { prices }), ...(choices.usd_rate && { exchange_rates: [rate] }) };
  return { ...(currency !== PUBLISHED_CURRENCY && { currency }), ...(Object.keys(list).length && { price_list: list }) };
}
