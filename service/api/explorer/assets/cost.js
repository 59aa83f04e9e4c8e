// What it costs: accelerators side by side under the chosen load, and the fleets that carry a demand.

import { post } from "./api.js";
import { drawCosts } from "./cost-chart.js";
import { h } from "./dom.js";
import { Figure } from "./figure.js";
import { engineName, inMilliseconds, MISSING, number, percent, shapeName, words } from "./format.js";
import { compareRequest, fleetRequest } from "./requests.js";

/** What CompareAccelerators and PlanFleet take where no engine is given. */
const DEFAULT_ENGINE = "vllm";

const p50 = (interval) => interval?.p50;
const range = (interval, text) => (interval ? `${text(interval.p50)} (${text(interval.p10)} to ${text(interval.p90)})` : MISSING);
const priceOf = (price) => (!price ? MISSING : price.is_own ? "your own" : [price.source, price.date, price.region].filter(Boolean).join(", "));
const plainly = (key, heading, of, kind) => ({ key, heading, kind, of, text: (row) => number(of(row)) });
const currencyOf = (rows) => rows.map((row) => row.currency).find(Boolean) || "USD";

function compareColumns(currency) {
  return [
    { key: "accelerator", heading: "Accelerator", of: (row) => row.accelerator },
    { key: "fits", heading: "Fits", of: (row) => (row.fits === undefined ? "not known" : row.fits ? "yes" : "no") },
    interval("estimated_cost_per_million_output_tokens", `Per million answer tokens (${currency})`, number),
    plainly("bound_cost_per_million_output_tokens", `The same at least (${currency})`, (row) => row.bound_cost_per_million_output_tokens, "bound"),
    plainly("cost_per_device_hour", `Per device-hour (${currency})`, (row) => row.cost_per_device_hour),
    interval("output_tokens_per_second_per_device", "Tokens/s per device", number),
    interval("tpot_seconds", "Between tokens (ms)", inMilliseconds),
    interval("ttft_seconds", "To the first token (ms)", inMilliseconds),
    plainly("decode_tokens_per_second_per_device", "Tokens/s per device at most", (row) => row.decode_tokens_per_second_per_device, "bound"),
    { key: "price_source", heading: "Price, date", of: (row) => priceOf(row.price) },
    { key: "notes", heading: "Notes", of: (row) => row.notes.join("; ") },
  ];
}

function interval(key, heading, text) {
  const parts = ["p10", "p50", "p90"].map((part) => ({ key: `${key}.${part}`, of: (row) => row[key]?.[part] }));
  return { key, heading, kind: "estimate", of: (row) => p50(row[key]), text: (row) => range(row[key], text), parts };
}

const pool = (plan) => plan.pools[0];

function fleetColumns(currency) {
  return [
    plainly("rank", "Rank", (plan) => plan.rank),
    { key: "accelerator", heading: "Accelerator", of: (plan) => plan.accelerator },
    { key: "parallelism", heading: "Shape", of: (plan) => plan.pools.map((each) => shapeName(each.parallelism)).join(" + ") },
    plainly("num_replicas", "Replicas", (plan) => plan.pools.reduce((sum, each) => sum + each.num_replicas, 0)),
    plainly("num_devices", "Devices", (plan) => plan.num_devices),
    plainly("cost_per_hour", `Per hour (${currency})`, (plan) => plan.cost?.cost_per_hour),
    plainly("cost_per_year", `Per year (${currency})`, (plan) => plan.cost?.cost_per_year),
    plainly("output_cost_per_million_tokens", `Per million answer tokens (${currency})`, (plan) => plan.cost?.output_cost_per_million_tokens),
    plainly("max_requests_per_second", "Requests/s at most", (plan) => plan.max_requests_per_second, "estimate"),
    { key: "ttft_seconds", heading: "First token (ms)", kind: "estimate", of: (plan) => pool(plan).ttft_seconds, text: (plan) => inMilliseconds(pool(plan).ttft_seconds) },
    { key: "tpot_seconds", heading: "Between tokens (ms)", kind: "estimate", of: (plan) => pool(plan).tpot_seconds, text: (plan) => inMilliseconds(pool(plan).tpot_seconds) },
    { key: "binding_limit", heading: "Decided by", of: (plan) => plan.binding_limit, text: (plan) => words(plan.binding_limit) },
    { key: "utilization_ratio", heading: "Used", of: (plan) => plan.utilization_ratio, text: (plan) => percent(plan.utilization_ratio) },
    { key: "price_source", heading: "Price, date", of: (plan) => priceOf(plan.cost?.price) },
  ];
}

export function costView(body) {
  const assumed = h("p", { class: "hint" });
  body.append(assumed);
  const compared = new Figure(body, "cost", { isOpen: true });
  const said = h("div", { class: "statements" });
  body.append(said);
  const fleets = new Figure(body, "fleets", { isChart: false, isOpen: true });
  const excuses = h("div", {});
  body.append(excuses);
  return {
    ask: (choices, signal) => {
      const request = compareRequest(choices);
      const comparison = request.accelerators.length > 1 ? post("/v1/accelerators:compare", request, signal) : null;
      return Promise.all([comparison, post("/v1/fleets:plan", fleetRequest(choices), signal)]);
    },
    show: ([comparison, plan], choices) => {
      assumed.textContent = assumptionOf(comparison, choices);
      if (comparison) compared.show(comparisonOf(comparison, choices));
      else compared.hide();
      said.replaceChildren(...fleetStatements(plan, choices));
      if (plan.plans.length) fleets.show({ table: fleetTable(plan, choices) });
      else fleets.hide();
      excuses.replaceChildren(excusesOf(plan));
    },
    hide: () => {
      assumed.textContent = "";
      compared.hide();
      fleets.hide();
      said.replaceChildren();
      excuses.replaceChildren();
    },
  };
}

/** What the costs rest on that nobody chose. */
function assumptionOf(comparison, choices) {
  const engine = choices.engine ? "" : `No engine is chosen: estimates and fleets here are those of ${engineName(DEFAULT_ENGINE)}, which is taken where none is named.`;
  const alone = comparison ? "" : "Tick another accelerator to compare the costs of both.";
  return [engine, alone].filter(Boolean).join(" ");
}

function comparisonOf(comparison, choices) {
  const rows = comparison.accelerators;
  const table = compareTable(comparison, choices);
  const about = { currency: currencyOf(rows), chosen: choices.accelerator, name: `Cost of a million answer tokens: ${table.caption}` };
  const isPriced = rows.some((row) => row.bound_cost_per_million_output_tokens !== undefined);
  return {
    draw: isPriced ? (width) => drawCosts(rows, about, width) : null,
    note: isPriced ? `One replica each, ${table.load}. Left is cheaper. The date is that of the price.` : "None of them has both a price and room for the model: there is nothing to draw.",
    table,
  };
}

function compareTable(comparison, choices) {
  const load = `${choices.concurrency} requests at once of ${choices.input_tokens} + ${choices.output_tokens} tokens`;
  return {
    load,
    caption: `one replica each, ${load}`,
    columns: compareColumns(currencyOf(comparison.accelerators)),
    rows: comparison.accelerators,
    highlight: (row) => row.accelerator === choices.accelerator,
  };
}

function fleetTable(plan, choices) {
  return {
    caption: `fleets for ${choices.requests_per_second} requests/s, ranked by ${words(plan.ranking)}`,
    columns: fleetColumns(currencyOf(plan.plans.map((each) => each.cost ?? {}))),
    rows: plan.plans,
    highlight: (row) => row.accelerator === choices.accelerator,
  };
}

function fleetStatements(plan, choices) {
  if (plan.infeasible) return [h("p", { class: "notice" }, plan.infeasible.reason)];
  const [best] = plan.plans;
  if (!best) return [h("p", { class: "notice" }, "No fleet carries this demand; the reasons stand below.")];
  const cost = best.cost ? `, ${number(best.cost.cost_per_hour)} ${best.cost.currency} per hour` : ", without a known price";
  return [h("p", {}, `For ${choices.requests_per_second} requests/s: ${best.num_devices} × ${best.accelerator}, ${pool(best).num_replicas} replicas of ${shapeName(pool(best).parallelism)}${cost}.`)];
}

function excusesOf(plan) {
  if (!plan.excuses.length) return "";
  const lines = plan.excuses.map((each) => {
    const shape = each.parallelism ? ` ${shapeName(each.parallelism)}` : "";
    return h("li", {}, h("strong", {}, `${each.accelerator}${shape}: ${words(each.reason)}. `), each.text);
  });
  return h("details", {}, h("summary", {}, `Why not others (${plan.excuses.length})`), h("ul", {}, lines));
}
