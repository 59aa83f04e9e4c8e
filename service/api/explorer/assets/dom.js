// Elements from code. Text is only ever set as text: nothing that the API sends can become markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

/** An HTML element: h("p", {class: "hint"}, "text"). */
export const h = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);

/** An SVG element. */
export const s = (name, attributes = {}, ...children) => fill(document.createElementNS(SVG, name), attributes, children);

/** Which kind of number follows. */
export const kindBadge = (kind) => h("span", { class: `kind ${kind}` }, kind);

/** A value of the API in a form for people, with the exact value kept beside it. */
export const datum = (value, text) => h("data", { value: value ?? "" }, text);
