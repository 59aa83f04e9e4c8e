// The REST API, and nothing else: asking, reading answers that come line by line, and refusals in the API's own words.

/** A refusal: what the service says, what would help, and which fields it is about. */
export class ApiError extends Error {
  constructor(message, { status = 0, violations = [], remedy = "", nearest = [], field = "" } = {}) {
    super(message);
    this.status = status;
    this.violations = violations;
    this.remedy = remedy;
    this.nearest = nearest;
    this.field = field;
  }
}

// In memory alone: gone with the page, and in no address, cookie or storage.
let accessKey = "";

export function useKey(key) {
  accessKey = key.trim();
}

export const get = (path, signal) => ask(path, { signal }).then((answer) => answer.json());

export const post = (path, request, signal) => send(path, request, signal).then((answer) => answer.json());

/** The parts of a streamed answer, one line of JSON each. */
export async function postForLines(path, request, signal) {
  const text = await (await send(path, request, signal)).text();
  const parts = text.split("\n").filter(Boolean).map((line) => JSON.parse(line));
  const broken = parts.find((part) => part.error);
  if (broken) throw refusal(broken.error, 200);
  return parts;
}

function send(path, request, signal) {
  return ask(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(request), signal });
}

async function ask(path, options) {
  const headers = accessKey ? { ...options.headers, authorization: `Bearer ${accessKey}` } : options.headers;
  let answer;
  try {
    answer = await fetch(path, { ...options, headers, credentials: "omit" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The service does not answer.", { remedy: "See whether it runs and the network holds, then change a choice to ask again." });
  }
  if (answer.ok) return answer;
  let body = {};
  try {
    body = await answer.json();
  } catch {
    // A proxy in between answers in words of its own; the status says what there is to say.
  }
  throw refusal(body, answer.status, answer.headers.get("retry-after"));
}

function refusal(body, status, retryAfter = null) {
  const details = body.details ?? [];
  const detail = (kind) => details.find((each) => String(each["@type"]).endsWith(kind)) ?? {};
  const metadata = detail("ErrorInfo").metadata ?? {};
  return new ApiError(body.message || `The service answered with status ${status}.`, {
    status,
    violations: detail("BadRequest").field_violations ?? [],
    remedy: metadata.remedy || remedyOf(status, retryAfter),
    nearest: metadata.nearest ? metadata.nearest.split(", ") : [],
    field: metadata.field ?? "",
  });
}

function remedyOf(status, retryAfter) {
  if (status === 401 || status === 403) return "Enter a key that may ask this under More choices, Access.";
  if (status === 429 || status === 503) return `Many are asking. Try again in ${retryAfter ?? 1} s by changing a choice.`;
  return "";
}
