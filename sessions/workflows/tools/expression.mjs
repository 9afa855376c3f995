// GitHub's expressions over plain JSON values, by GitHub's own lexer, parser and evaluator.
import { data, Evaluator, Lexer, Parser } from "@actions/expressions";

const EXPRESSION = /\$\{\{(.*?)\}\}/gs;

const toData = (value) => JSON.parse(JSON.stringify(value ?? null), data.reviver);
const fromData = (value) => JSON.parse(JSON.stringify(value, data.replacer));

/** The value of one expression without its braces. `contexts` are JSON values by name, `status` the functions
 * success, failure, always and cancelled as booleans; a context that is not given is an error. */
export function evaluate(text, contexts, status = {}) {
  const functions = Object.entries(status).map(([name, value]) => ({
    name,
    minArgs: 0,
    maxArgs: 0,
    call: () => new data.BooleanData(value),
  }));
  const { tokens } = new Lexer(text).lex();
  const tree = new Parser(tokens, Object.keys(contexts), functions).parse();
  const table = new Map(functions.map((one) => [one.name, one]));
  return fromData(new Evaluator(tree, toData(contexts), table).evaluate());
}

/** A value of YAML with all its expressions evaluated; a text that is one expression keeps its type. */
export function expand(value, contexts) {
  if (Array.isArray(value)) return value.map((item) => expand(item, contexts));
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, expand(item, contexts)]));
  }
  if (typeof value !== "string") return value;
  const whole = /^\s*\$\{\{((?:(?!\}\}).)*)\}\}\s*$/s.exec(value);
  if (whole) return evaluate(whole[1].trim(), contexts);
  return value.replace(EXPRESSION, (_, inner) => asText(evaluate(inner.trim(), contexts)));
}

/** A condition, with GitHub's rule that `success()` holds where no function of status is named. */
export function condition(value, contexts, status) {
  if (value === undefined || value === null) return status.success;
  const text = String(value).replace(/^\s*\$\{\{(.*)\}\}\s*$/s, "$1").trim();
  const named = /\b(success|failure|always|cancelled)\s*\(/.test(text);
  return Boolean(truth(evaluate(named ? text : `success() && (${text})`, contexts, status)));
}

export function asText(value) {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

const truth = (value) => !(value === null || value === false || value === 0 || value === "");
