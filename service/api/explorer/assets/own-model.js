// A model of one's own: a config.json that is pasted. The service reads it; here it only has to be JSON.

/** The entry of the list of models that stands for what is pasted. */
export const OWN = "";

/** JSON without its blanks; what is no JSON as it is. */
export function compact(text) {
  try {
    return JSON.stringify(JSON.parse(text));
  } catch {
    return text;
  }
}

/** Shows the field where it is chosen, and gives the browser what is wrong with it. */
export function checkOwnModel(form) {
  const field = form.elements.hf_config;
  const isOwn = form.elements.model.value === OWN;
  form.querySelector("#own-model").hidden = !isOwn;
  field.setCustomValidity(isOwn ? mistakeOf(field.value) : "");
}

function mistakeOf(text) {
  if (!text.trim()) return "Paste the config.json that comes with the checkpoint.";
  try {
    JSON.stringify(JSON.parse(text));
    return "";
  } catch (error) {
    return `This is no JSON that can be sent: ${error.message}`;
  }
}

/** The model of a request. */
export const modelOf = (choices) => (choices.model === OWN ? { hf_config: JSON.parse(choices.hf_config) } : { name: choices.model });

/** What to call the model. */
export function modelName(choices) {
  if (choices.model !== OWN) return choices.model;
  const config = JSON.parse(choices.hf_config);
  const name = config?._name_or_path || config?.model_type;
  return typeof name === "string" && name ? `your own model (${name.slice(0, 60)})` : "your own model";
}
