"use strict";
/* What every part needs: the model, time as words, and elements made without markup. */
const MODEL = JSON.parse(document.getElementById("model").textContent);
const SVG = "http://www.w3.org/2000/svg";
const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;

/* The one state of the page. `view` is what the time axis shows; `active` is the item that has
   the keyboard, `open` the one whose details are shown (both: row key and item key). */
const state = {
  run: null, begin: 0, view: [0, 1], width: 800,
  find: "", pool: "", team: "", check: "", kind: "",
  unfolded: new Set(), active: null, open: null, print: false,
};

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "on") for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of (children || []).flat(Infinity)) if (child !== null && child !== undefined && child !== "") element.append(child);
  return element;
}
const html = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const svg = (name, attributes, ...children) => fill(document.createElementNS(SVG, name), attributes, children);
const byId = id => document.getElementById(id);
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const plural = (count, one, many) => `${count.toLocaleString("en")} ${count === 1 ? one : many || one + "s"}`;
const two = number => String(number).padStart(2, "0");

function clockOf(t, seconds) {
  const at = new Date(state.begin + t);
  const text = `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}`;
  return seconds ? `${text}:${two(at.getUTCSeconds())}` : text;
}
function dayOf(t) {
  const at = new Date(state.begin + t);
  return `${DAYS[at.getUTCDay()]} ${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]}`;
}
/* A weekday says which day it is in a run of a week. */
const whenOf = (t, seconds = true) => `${state.run.length > 7 * DAY ? dayOf(t) : dayOf(t).slice(0, 3)} ${clockOf(t, seconds)}`;
const spanOf = (a, b, seconds) => `${whenOf(a, seconds)} to ${dayOf(a) === dayOf(b) ? clockOf(b, seconds) : whenOf(b, seconds)}`;
function lengthOf(ms) {
  const parts = [];
  let left = Math.round(ms / SECOND);
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]]) {
    const count = Math.floor(left / size);
    left -= count * size;
    if (count) parts.push(`${count} ${unit}`);
  }
  return parts.slice(0, 2).join(" ") || "0 s";
}

const measure = (() => {
  const context = document.createElement("canvas").getContext("2d");
  const known = new Map();
  return (text, font = "11.5px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif") => {
    const key = font + text;
    if (!known.has(key)) {
      context.font = font;
      if (known.size > 20000) known.clear();
      known.set(key, context.measureText(text).width);
    }
    return known.get(key);
  };
})();
/* As much of the text as fits, with an ellipsis; nothing if not even a few letters do. */
function fitted(text, width) {
  if (measure(text) <= width) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (measure(text.slice(0, middle).trimEnd() + "…") <= width) low = middle; else high = middle - 1;
  }
  /* Not in the middle of a word, if that can be had. */
  const space = text[low] === " " ? low : text.lastIndexOf(" ", low);
  if (space > low / 2) low = space;
  return low < 4 ? "" : text.slice(0, low).replace(/[\s,;:.(]+$/, "") + "…";
}

/* The time axis. */
const NAMES = 168, RIGHT = 10;
const plotWidth = () => Math.max(60, state.width - NAMES - RIGHT);
const xOf = t => NAMES + (t - state.view[0]) / (state.view[1] - state.view[0]) * plotWidth();
const tOf = x => state.view[0] + (x - NAMES) / plotWidth() * (state.view[1] - state.view[0]);
const STEPS = [SECOND, 5 * SECOND, 15 * SECOND, 30 * SECOND, MINUTE, 2 * MINUTE, 5 * MINUTE, 15 * MINUTE,
  30 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 28 * DAY];
function ticks() {
  const span = state.view[1] - state.view[0];
  const step = STEPS.find(one => one / span * plotWidth() >= 46) || STEPS[STEPS.length - 1];
  const found = [];
  const first = Math.ceil((state.begin + state.view[0]) / step) * step - state.begin;
  for (let t = first; t <= state.view[1]; t += step) found.push(t);
  return {step, found};
}
const isDay = t => (state.begin + t) % DAY === 0;
