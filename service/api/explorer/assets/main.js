// The page: reads what is chosen, asks the API, and shows the answers as they come.

import { post, useKey } from "./api.js";
import { answerView } from "./answer.js";
import { costView } from "./cost.js";
import { curveView } from "./curve.js";
import { h } from "./dom.js";
import { number } from "./format.js";
import { choosable, fillSelect, resolved } from "./lists.js";
import { memoryView } from "./memory.js";
import { controlOf, mark, problemOf } from "./problems.js";
import { decodeRequest, servingRequest } from "./requests.js";
import { rooflineView } from "./roofline.js";
import { fromAddress, fromForm, mistakes, toAddress, toForm } from "./state.js";
import { whyView } from "./why.js";

const WAIT_MILLISECONDS = 250;

const form = document.querySelector("#choices");
const status = document.querySelector("#status");
const problem = document.querySelector("#problem");
const bodyOf = (name) => document.querySelector(`#${name} > .body`);
const views = {
  answer: answerView(bodyOf("answer")),
  roofline: rooflineView(bodyOf("roofline")),
  memory: memoryView(bodyOf("memory")),
  curve: curveView(bodyOf("curve")),
  cost: costView(bodyOf("cost")),
  why: whyView(bodyOf("why")),
};
const troubles = Object.fromEntries(Object.keys(views).map((name) => [name, h("div", { class: "problem", hidden: true })]));

let lists = null;
let timer = 0;
let asking = null;
let isFirst = true;

const ticked = () => [...document.querySelectorAll("#others-list input:checked")].map((box) => box.value);

function say(state, text) {
  status.dataset.state = state;
  status.textContent = text;
}

function showProblem(children, controls) {
  problem.replaceChildren(...children);
  problem.hidden = children.length === 0;
  mark(form, controls, "problem");
}

/** An error in elements; names that are near can be taken where a single control holds the name. */
function told(error) {
  const control = error.field ? controlOf(form, error.field) : undefined;
  const take = (name) => {
    control.value = name;
    update();
  };
  return problemOf(error, control ? take : null);
}

/** Ticks these accelerators and no others. A name that is not offered gets a box: the service will say what is nearest. */
function tick(names) {
  const list = document.querySelector("#others-list");
  for (const name of new Set([...lists.accelerators.map((each) => each.name), ...names])) {
    const box = list.querySelector(`input[value="${CSS.escape(name)}"]`) ?? list.appendChild(boxOf(name)).querySelector("input");
    box.checked = names.includes(name);
  }
}

const boxOf = (name) => h("label", {}, h("input", { type: "checkbox", value: name }), ` ${name}`);

/** The choices of the address, in the form. */
function restore() {
  const choices = fromAddress(location.search);
  choices.model = resolved(lists.models, choices.model);
  choices.accelerator = resolved(lists.accelerators, choices.accelerator);
  toForm(form, choices);
  tick(choices.others.split(",").filter(Boolean).map((name) => resolved(lists.accelerators, name)));
}

async function begin() {
  say("asking", "Reading the catalogue …");
  try {
    lists = await choosable();
  } catch (error) {
    say("failed", "No answer.");
    showProblem(told(error), []);
    if (error.status === 401 || error.status === 403) form.querySelector("#more").open = true;
    return;
  }
  fillSelect(form.elements.model, lists.models);
  fillSelect(form.elements.accelerator, lists.accelerators);
  restore();
  await update();
}

function schedule() {
  clearTimeout(timer);
  timer = setTimeout(lists ? update : begin, WAIT_MILLISECONDS);
}

/** Asks anew. What was still being asked is dropped. */
async function update() {
  clearTimeout(timer);
  asking?.abort();
  const wrong = mistakes(form);
  if (wrong.length) {
    say("refused", "Not asked yet.");
    showProblem(wrong.map(({ text }) => h("p", {}, text)), wrong.map(({ control }) => control));
    return;
  }
  const choices = fromForm(form, ticked());
  note(choices);
  asking = new AbortController();
  say("asking", "Asking …");
  const { signal } = asking;
  const done = await Promise.all([askMain(choices, signal), ...["roofline", "curve", "cost"].map((name) => askView(name, choices, signal))]);
  if (signal.aborted) return;
  conclude(done);
  if (isFirst && location.hash) document.querySelector(location.hash)?.scrollIntoView();
  isFirst = false;
}

/** The choices in the address and in the links of all views. */
function note(choices) {
  const address = toAddress(choices);
  history.replaceState(null, "", address + location.hash);
  for (const link of document.querySelectorAll("a.share")) link.href = `${address}#${link.closest("section").id}`;
  document.querySelector("#others-named").textContent = ticked().join(", ") || "nothing";
  document.title = `${choices.model} on ${choices.accelerator} · Tonnage`;
}

/** What several views show: the bound, the memory and the estimate. Without a bound there is nothing to show. */
async function askMain(choices, signal) {
  const parts = [
    post("/v1/decode:estimate", { ...decodeRequest(choices), explain: true }, signal),
    views.memory.ask(choices, signal),
    choices.engine ? post("/v1/serving:estimate", servingRequest(choices), signal) : Promise.resolve(null),
  ];
  for (const name of ["answer", "memory", "why"]) busy(name, true);
  const [decode, memory, serving] = await Promise.allSettled(parts);
  if (signal.aborted) return {};
  for (const name of ["answer", "memory", "why"]) busy(name, false);
  settle("memory", memory, () => views.memory.show(memory.value));
  settle("answer", decode, () => views.answer.show(decode.value, serving.value, memory.value, choices));
  settle("why", decode, () => views.why.show(decode.value, serving.value));
  if (serving.status === "rejected" && decode.status === "fulfilled") trouble("answer", serving.reason);
  return { error: decode.reason, decode: decode.value };
}

async function askView(name, choices, signal) {
  busy(name, true);
  const [answer] = await Promise.allSettled([views[name].ask(choices, signal)]);
  if (signal.aborted) return {};
  busy(name, false);
  settle(name, answer, () => views[name].show(answer.value, choices));
  return { name, error: answer.reason };
}

function settle(name, { status: outcome, reason }, show) {
  troubles[name].hidden = true;
  if (outcome === "fulfilled") {
    show();
  } else {
    views[name].hide();
    trouble(name, reason);
  }
}

function trouble(name, error) {
  troubles[name].replaceChildren(...told(error));
  troubles[name].hidden = false;
}

const busy = (name, isBusy) => bodyOf(name).setAttribute("aria-busy", String(isBusy));

/** What is wrong with the bound is wrong with all: it is said once, at the top, beside the choices that it is about. */
function conclude([main]) {
  if (main.error) {
    const fields = [main.error.field, ...(main.error.violations ?? []).map((each) => each.field)].filter(Boolean);
    showProblem(told(main.error), fields.map((field) => controlOf(form, field)).filter(Boolean));
    say("failed", "No answer.");
    if (main.error.status === 401 || main.error.status === 403) form.querySelector("#more").open = true;
    for (const each of Object.values(troubles)) each.hidden = true;
    return;
  }
  showProblem([], []);
  const { bound, fits, catalogue_revision: revision } = main.decode;
  const fit = fits === undefined ? "whether it fits is not known" : fits ? "it fits" : "it does not fit";
  say("answered", `Answered: at most ${number(bound.tokens_per_second)} tokens/s, ${fit}.`);
  document.querySelector("#revision").textContent = `Catalogue ${revision}.`;
}

for (const select of form.querySelectorAll("[data-formats]")) {
  select.append(...select.dataset.formats.split(" ").map((format) => new Option(format, format)));
}
for (const [name, element] of Object.entries(troubles)) bodyOf(name).before(element);
document.addEventListener("input", ({ target }) => {
  if (target.name === "key") useKey(target.value);
  if (target.form === form || target.closest("#others-list")) schedule();
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  schedule();
});
addEventListener("popstate", () => {
  if (!lists || toAddress(fromAddress(location.search)) === toAddress(fromForm(form, ticked()))) return;
  restore();
  update();
});
begin();
