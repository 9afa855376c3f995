// Evaluates GitHub's `${{ … }}` expressions on plain JSON values, with GitHub's own lexer, parser and evaluator.
import { data, Evaluator, Lexer, Parser } from "@actions/expressions";

const EXPRESSION = /\$\{\{(.*?)\}\}/gs;

const toData = (value) => JSON.parse(JSON.stringify(value ?? null), data.reviver);
const fromData = (value) => JSON.parse(JSON.stringify(value, data.replacer));

/** Return the value of one expression without its braces. `contexts` maps context names to JSON values. `status` maps
 * the functions success, failure, always and cancelled to their results. A context that is not in `contexts` is an
 * error. */
export function evaluate(text, contexts, status = {}) {
  const functions = Object.entries(status).map(([name, value]) => ({
    name,
    minArgs: 0,
    maxArgs: 0,
    call: () => new data.BooleanData(value),
  }));
  const { tokens } = new Lexer(text).lex();
  const tree = new Parser(tokens, Object.keys(contexts), functions).parse();
  const table = new Map(functions.map((definition) => [definition.name, definition]));
  return fromData(new Evaluator(tree, toData(contexts), table).evaluate());
}

/** Return a YAML value with all expressions evaluated. A string that consists of one expression becomes the value of the
 * expression, with its type. */
export function expandExpressions(value, contexts) {
  if (Array.isArray(value)) return value.map((item) => expandExpressions(item, contexts));
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, expandExpressions(item, contexts)]));
  }
  if (typeof value !== "string") return value;
  const whole = /^\s*\$\{\{((?:(?!\}\}).)*)\}\}\s*$/s.exec(value);
  if (whole) return evaluate(whole[1].trim(), contexts);
  return value.replace(EXPRESSION, (_, inner) => asText(evaluate(inner.trim(), contexts)));
}

/** Return whether an `if:` condition is true. As on GitHub, a condition that calls no status function also requires
 * `success()`. */
export function evaluateCondition(value, contexts, status) {
  if (value === undefined || value === null) return status.success;
  const text = String(value).replace(/^\s*\$\{\{(.*)\}\}\s*$/s, "$1").trim();
  const callsStatus = /\b(success|failure|always|cancelled)\s*\(/.test(text);
  return isTrue(evaluate(callsStatus ? text : `success() && (${text})`, contexts, status));
}

/** Return a value as GitHub inserts it into a string. */
export function asText(value) {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

const isTrue = (value) => !(value === null || value === false || value === 0 || value === "");
