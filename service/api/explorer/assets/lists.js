// What can be chosen: models and accelerators of the catalogue.

import { get } from "./api.js";
import { h } from "./dom.js";

const PAGE_SIZE = 500;

async function all(path, field) {
  const found = [];
  let token = "";
  do {
    const page = await get(`${path}?page_size=${PAGE_SIZE}${token && `&page_token=${encodeURIComponent(token)}`}`);
    found.push(...page[field]);
    token = page.next_page_token;
  } while (token);
  return found;
}

/** Models and accelerators, each as {name, group, aliases}. */
export async function choosable() {
  const [models, accelerators] = await Promise.all([all("/v1/models", "models"), all("/v1/accelerators", "accelerators")]);
  const plain = (group) => (each) => ({ name: each.name, group: each[group] || "other", aliases: each.aliases });
  return { models: models.map(plain("publisher")), accelerators: accelerators.map(plain("vendor")) };
}

/** Fills a select, grouped by who makes it. */
export function fillSelect(select, entries) {
  const groups = new Map();
  for (const each of entries) groups.set(each.group, [...(groups.get(each.group) ?? []), each]);
  const sorted = [...groups].sort(([a], [b]) => a.localeCompare(b));
  select.replaceChildren(...sorted.map(([label, members]) => h("optgroup", { label }, members.map((each) => new Option(each.name, each.name)))));
}

/** An alias as the name that the list shows; what is unknown stays as it is. */
export const resolved = (entries, name) => entries.find((each) => each.aliases.includes(name))?.name ?? name;
