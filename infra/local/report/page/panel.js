/* The decision behind a mark, in words. With nothing chosen the panel says how to read the chart. */
const heading = () => document.querySelector("h1#name-0") ? "h2" : "h3";
/* Long names may be broken where their parts meet. */
const breakable = text => text.split(/(?<=[/=.:_])/).flatMap(part => [part, html("wbr")]);
function entry(name, value) {
  if (value === null || value === undefined || value === "") return [];
  return [html("dt", null, name), html("dd", null, typeof value === "string" ? breakable(value) : value)];
}
const listOf = texts => html("ul", null, texts.map(text => html("li", null, text)));

/* Decisions in their order; those of one call are followed by what the call was about. */
function decisions(marks, isDim = () => false) {
  return marks.map((mark, place) => {
    const next = marks[place + 1], ends = mark.call !== undefined && (!next || next.call !== mark.call);
    return [decision(mark, isDim(mark)), ends ? callOf(mark.call) : null];
  });
}
function decision(mark, dim) {
  return html("article", {class: `decision${dim ? " dim" : ""}`, "data-mark": mark.place},
    html("div", {class: "what"}, icon(glyphOf(mark)), html("span", null, `${wordOf(mark)}${mark.shadow ? " (shadow: not done)" : ""}`),
      html("time", {class: "by"}, whenOf(mark.t))),
    html("p", null, mark.text),
    html("dl", null,
      mark.f ? entry("Decided by", `${mark.f}: ${mark.k}`) : [],
      entry("Incident", mark.incident), entry("Severity", mark.severity), entry("Evidence", mark.evidence),
      entry("Blocked by", mark.blocked && (mark.blocked.length > 1 ? listOf(mark.blocked) : mark.blocked[0])),
      entry("Looks again", mark.again === undefined ? "" : `${whenOf(mark.again)} (in ${lengthOf(mark.again - mark.t)})`)));
}
function callOf(place) {
  const call = state.run.calls[place], requests = call.requests || [];
  const total = requests.reduce((sum, [, count]) => sum + count, 0);
  return html("dl", {class: "call"}, entry("Woken by", call.type), entry("Event ID", html("span", {class: "mono"}, call.id)),
    entry("Event from", [call.source, call.subject].filter(Boolean).join(" ")),
    entry("Requests", requests.length ? `${total}: ${requests.map(([what, count]) => count > 1 ? `${count} × ${what}` : what).join(", ")}` : "none"));
}
const placeOf = node => node.team ? `${node.pool} · team ${node.team}` : node.pool;
const stateAt = (node, t) => (node.states || []).reduce((found, one) => one.a <= t ? one : found, null);
function stateLine(node, t) {
  const one = stateAt(node, t);
  return one ? `${MODEL.states[one.s]}${one.why ? `: ${one.why}` : ""}` : "";
}

const DETAILS = {
  marks(item) {
    const {node, marks} = item, first = marks[0], last = marks[marks.length - 1];
    const time = first.t === last.t ? whenOf(first.t) : spanOf(first.t, last.t, true);
    return [head(node.name, `${placeOf(node)} · ${time}`, html("button", {type: "button", class: "link", on: {click: () => choose(`node:${node.place}`, "n")}}, "All of this node")),
      html("p", null, "Afterwards ", html("b", null, stateLine(node, last.t))),
      ...decisions(marks).flat(),
      marks.length > 1 && first.t !== last.t ? zoomTo("Zoom in on these", first.t, last.t) : null];
  },
  node(item) {
    const {node} = item, marks = state.run.byNode[node.place];
    const states = (node.states || []).map((one, place, all) => ({...one, b: place + 1 < all.length ? all[place + 1].a : state.run.length}))
      .filter(one => one.s !== "service");
    const parts = [head(node.name, `${placeOf(node)} · ${plural(marks.length, "mark")}${node.pods ? ` · ${plural(node.pods, "pod")} evicted` : ""}`)];
    const list = (name, items) => items.length && parts.push(html(heading() === "h2" ? "h3" : "h4", {class: "small"}, name), html("ul", {class: "list"}, items));
    list("Not simply in service", states.map(one => html("li", null, html("time", null, whenOf(one.a, false)), ` ${MODEL.states[one.s]} for ${lengthOf(one.b - one.a)}${one.why ? `: ${one.why}` : ""}`)));
    list("Incidents", (node.incidents || []).map(one => html("li", null, html("time", null, whenOf(one.a, false)), ` ${one.key} (${one.severity})`,
      html("br"), one.end ? `${one.end}, after ${lengthOf((one.b ?? one.a) - one.a)}` : "open at the end")));
    list("Clocks", (node.clocks || []).map(one => html("li", null, html("time", null, whenOf(one.a, false)), ` ${one.text}${one.due === undefined ? "" : ` (over at ${whenOf(one.b, false)})`}`)));
    if (!marks.length) parts.push(html("p", {class: "empty"}, "Nothing happened to it, and nothing was decided about it."));
    return [...parts, ...decisions(marks, mark => !matches(mark)).flat()];
  },
  story(item) {
    if (item.all.length > 1) return storyOf(item.all.map(place => state.run.story[place]));
    const {said, place} = item, run = state.run, next = run.story.find(one => one.t > said.t);
    const after = run.marks.filter(mark => mark.t >= said.t && mark.t < (next ? next.t : Infinity));
    const most = 60;
    return [head(whenOf(said.t), `What happened${said.line ? ` · line ${said.line} of the scenario` : ""}`), html("p", null, said.text),
      zoomTo("Zoom in on this", said.t, Math.min(said.t + HOUR, run.length)),
      html("p", {class: "empty"}, after.length ? `${plural(after.length, "mark")} before anything else happened:` : "Nothing came of it before something else happened."),
      html("ul", {class: "list"}, after.slice(0, most).map(mark => html("li", null, html("time", null, clockOf(mark.t, true)), " ",
        html("button", {type: "button", class: "link", on: {click: () => choose(`node:${mark.n}`, `m${mark.place}`)}}, `${run.nodes[mark.n].name} ${wordOf(mark)}`)))),
      after.length > most ? html("p", {class: "empty"}, `and ${after.length - most} more`) : null];
  },
  checks(item) {
    return [head(whenOf(item.t), "What was expected"), ...item.checks.map(check => html("article", {class: "decision"},
      html("div", {class: "what"}, icon(check.ok ? shape("tick", "good") : shape("cross", "fail")), html("span", null, check.ok ? "held" : "did not hold"),
        check.line ? html("span", {class: "by"}, `line ${check.line}`) : null),
      html("p", null, check.expected), html("dl", null, entry("Because", check.because), entry("Seen", check.seen))))];
  },
  band(item) {
    const {band} = item;
    return [head(band.pool || "the whole cluster", `${spanOf(band.a, band.b, true)} · ${lengthOf(band.b - band.a)}`), html("p", null, band.text),
      html("p", {class: "empty"}, {breaker: "One check accused so many nodes that it is not believed: what would be done on its word stops, and recoveries go on.",
        pause: "A person has stopped everything but recoveries.", away: "No request reaches the API server, and no event is told."}[band.kind]),
      zoomTo("Zoom in on this", band.a, band.b)];
  },
};
function storyOf(said) {
  const first = said[0], last = said[said.length - 1];
  return [head(spanOf(first.t, last.t, false), `What happened · ${plural(said.length, "line")}`),
    html("ul", {class: "list"}, said.map(one => html("li", null, html("time", null, whenOf(one.t, false)), ` ${one.text}`))),
    zoomTo("Zoom in on these", first.t, last.t)];
}
function head(text, below, extra) {
  return html("div", {class: "panel-head"}, html(heading(), null, text, html("small", null, below)), extra,
    html("button", {type: "button", "aria-label": "Close details", title: "Close (Esc)", on: {click: closeDetails}}, "✕"));
}
function zoomTo(text, a, b) {
  const room = Math.max((b - a) * .25, 2 * MINUTE);
  return html("p", null, html("button", {type: "button", on: {click: () => show(a - room, b + room)}}, text));
}

/* Show what is behind an item. `item` is a key as `itemsOf` gives it; marks that stand together
   are remembered one by one (m12.13.14), as another zoom would show them apart. */
function choose(row, item) {
  const target = rowAt.get(row), named = item.includes(".") ? null : target && itemsOf(target).find(one => holds(one, item));
  if (named && named.type === "fold") {
    toggleFold(named.pool.name);
    return;
  }
  const shown = named || markItem(row, item);
  if (!shown) {
    closeDetails();
    return;
  }
  const key = shown.type === "marks" ? `m${shown.marks.map(mark => mark.place).join(".")}` : item;
  state.open = {row, item: key};
  state.active = {row, item: key};
  byId("details").replaceChildren(...DETAILS[shown.type](shown).filter(Boolean));
  byId("panel").classList.add("opened");
  byId("panel").scrollTop = 0;
  remember();
  render();
}
/* Marks by their numbers, or a node: they can be read even where filters or zoom leave them out. */
function markItem(row, item) {
  const run = state.run, node = row.startsWith("node:") ? run.nodes[Number(row.slice(5))] : null;
  if (!node) return null;
  if (item === "n") return {type: "node", node};
  const marks = item.slice(1).split(".").map(place => run.marks[Number(place)]).filter(mark => mark && mark.n === node.place);
  return item[0] === "m" && marks.length ? {type: "marks", node, marks, best: marks[0], t: marks[0].t} : null;
}
function closeDetails() {
  const was = state.open;
  state.open = null;
  byId("details").replaceChildren();
  byId("panel").classList.remove("opened");
  remember();
  renderNow();
  if (was) focusActive(false);
}

function legend() {
  const name = heading();
  const key = (picture, text) => html("li", {class: "key"}, picture, html("span", null, text));
  const states = Object.entries(MODEL.states).filter(([one]) => one !== "service").map(([one, text]) =>
    key(svg("svg", {class: "bar", viewBox: "0 0 30 16", "aria-hidden": "true"}, bar(one, 0, 30, 8)), text));
  const tone = (kinds, blocked) => kinds.map(kind => key(icon(glyphOf({k: kind, blocked})), wordOf({k: kind, blocked})));
  const small = (inner, text) => key(svg("svg", {class: "bar", viewBox: "0 0 30 16", "aria-hidden": "true"}, inner), text);
  byId("legend").replaceChildren(
    html(name, null, "A node is"), html("ul", {class: "keys"}, states),
    html(name, null, "Decided"), html("ul", {class: "keys"},
      tone(["open", "cordon", "raise", "hold", "start-drain"]), tone(["wait"], ["x"]), tone(["drained", "stop-drain", "dismiss", "close", "uncordon"])),
    html(name, null, "Happened"), html("ul", {class: "keys"},
      tone(["said", "well", "gpus", "reboot", "replaced", "gone", "cordoned-by-others", "uncordoned-by-others", "evicted", "refused"])),
    html(name, null, "Beside them"), html("ul", {class: "keys one"},
      small(label("3", 12, 12, "soft"), "beside a mark: so many are here; it shows the gravest"),
      small(svg("g", {class: "clock"}, svg("path", {d: "M2 12H20", "stroke-dasharray": "1 3", "stroke-width": 1.3}), svg("path", {d: "M20 15V4l6 2.5l-6 2.5", "stroke-width": 1.3, fill: "var(--ink)"})), "a deadline; a thick line: its maintenance window"),
      small(svg("g", {class: "clock"}, svg("path", {d: "M2 12H22", "stroke-dasharray": "3 2", "stroke-width": 1.3})), "a waiting time"),
      small([9, 13, 20].map(x => svg("rect", {class: "tick", x, y: 9, width: 1.5, height: 4})), "events that needed nothing"),
      small(svg("path", {class: "budget", d: "M1 8H29"}), "the budget of nodes out of service")),
    html("div", {class: "keyboard"}, html(name, null, "Keyboard"), html("ul", {class: "keys one"},
      [["← → ↑ ↓", "from mark to mark"], ["Enter", "what was decided there"], ["Esc", "close"], ["+ − 0", "zoom in, out, all"], ["Shift ← →", "earlier, later"], ["/", "find"]].map(([keys, text]) =>
        html("li", {class: "key"}, html("span", null, html("kbd", null, keys)), html("span", null, text))))));
}
