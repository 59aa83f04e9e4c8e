// The page: reads what is chosen, asks the API, and shows the answers as they come.

import { post, useKey } from "./api.js";
import { answerView } from "./answer.js";
import { costView } from "./cost.js";
import { curveView } from "./curve.js";
import { h } from "./dom.js";
import { number } from "./format.js";
import { choosable, fillSelect, resolved } from "./lists.js";
import { memoryView } from "./memory.js";
import { checkOwnModel, modelName, OWN } from "./own-model.js";
import { PriceFields } from "./prices.js";
import { controlsOf, mark, problemOf, sayBeside } from "./problems.js";
import { acceleratorsOf, decodeRequest, servingRequest } from "./requests.js";
import { rooflineView } from "./roofline.js";
import { fromAddress, fromForm, linkTo, mistakes, toForm } from "./state.js";
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
const troubles = Object.fromEntries(Object.keys(views).map((name) => [name, h("div", { id: `${name}-problem`, class: "problem", hidden: true })]));
const prices = new PriceFields(document.querySelector("#prices-list"));

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
  mark([...form.elements, ...prices.shown], controls, "problem");
  sayBeside(form, controls, children.map((child) => child.textContent));
}

const controlOf = (error) => controlsOf(form, { field: error.field })[0];
const chosen = () => fromForm(form, ticked(), prices.text);

/** An error in elements; names that are near can be taken where a single control holds the name. */
function told(error) {
  const control = controlOf(error);
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
  prices.restore(choices.prices);
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
  form.elements.model.prepend(new Option("your own config.json", OWN));
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
  checkOwnModel(form);
  prices.show(acceleratorsOf(chosen()));
  const wrong = mistakes(form, prices.shown);
  if (wrong.length) {
    say("refused", "Not asked yet.");
    showProblem(wrong.map(({ text }) => h("p", {}, text)), wrong.map(({ control }) => control));
    return;
  }
  const choices = chosen();
  note(choices);
  asking = new AbortController();
  say("asking", "Asking …");
  const { signal } = asking;
  if (choices.model === OWN && !(await isTaken(choices, signal))) return;
  const done = await Promise.all([askMain(choices, signal), ...["roofline", "curve", "cost"].map((name) => askView(name, choices, signal))]);
  if (signal.aborted) return;
  conclude(done);
  if (isFirst && location.hash) document.querySelector(location.hash)?.scrollIntoView();
  isFirst = false;
}

/** Whether the service takes what was pasted: asked once, so that what is wrong or huge is not sent by every view. */
async function isTaken(choices, signal) {
  const [{ reason: error }] = await Promise.allSettled([post("/v1/decode:estimate", decodeRequest(choices), signal)]);
  if (signal.aborted) return false;
  if (error) {
    for (const view of Object.values(views)) view.hide();
    conclude([{ error }]);
  }
  return !error;
}

/** The choices in the address and in the links of all views. */
function note(choices) {
  const { address, isWhole } = linkTo(choices);
  document.querySelector("#no-link").hidden = isWhole;
  history.replaceState(null, "", address + location.hash);
  for (const link of document.querySelectorAll("a.share")) link.href = `${address}#${link.closest("section").id}`;
  document.querySelector("#others-named").textContent = ticked().join(", ") || "nothing";
  document.title = `${modelName(choices)} on ${choices.accelerator} · Tonnage`;
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
  const beside = [{ name: "answer", error: serving.reason }, { name: "memory", error: memory.reason }];
  return { error: decode.reason, decode: decode.value, beside };
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
function conclude([main, ...others]) {
  if (main.error) {
    showProblem(told(main.error), controlsOf(form, main.error));
    say("failed", "No answer.");
    if (main.error.status === 401 || main.error.status === 403) form.querySelector("#more").open = true;
    for (const each of Object.values(troubles)) each.hidden = true;
    return;
  }
  showProblem([], []);
  for (const { name, error } of [...main.beside, ...others].filter((each) => each.error)) {
    const controls = controlsOf(form, error);
    mark(controls, controls, `${name}-problem`);
  }
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
  if (target.form === form || target.closest("#others-list, #prices-list")) schedule();
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  schedule();
});
addEventListener("popstate", () => {
  if (!lists || linkTo(fromAddress(location.search)).address === linkTo(chosen()).address) return;
  restore();
  update();
});
begin();
