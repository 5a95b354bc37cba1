/* Zoom and pan, filters, the address, the theme, print. */
const SHORTEST = 20 * SECOND;
function show(a, b) {
  const all = state.run.length, span = clamp(b - a, Math.min(SHORTEST, all), all);
  const begin = clamp((a + b) / 2 - span / 2, 0, all - span);
  state.view = [begin, begin + span];
  remember();
  render();
}
function zoom(factor, around = (state.view[0] + state.view[1]) / 2) {
  const [a, b] = state.view;
  show(around - (around - a) * factor, around + (b - around) * factor);
}
function pan(part) {
  const by = (state.view[1] - state.view[0]) * part;
  const [a, b] = state.view, shift = clamp(by, -a, state.run.length - b);
  show(a + shift, b + shift);
}
function toggleFold(pool) {
  if (!state.unfolded.delete(pool)) state.unfolded.add(pool);
  render();
}

/* Dragging: on the overview it chooses a part, elsewhere it moves the axis. */
function drag(target, begin) {
  target.addEventListener("pointerdown", event => {
    if (event.button !== 0) return;
    const moved = begin(event);
    if (!moved) return;
    const from = event.clientX;
    let far = false;
    const onMove = now => {
      if (!far && Math.abs(now.clientX - from) < 4) return;
      if (!far) { far = true; target.setPointerCapture(event.pointerId); }
      moved(now.clientX - from);
    };
    const onUp = () => { target.removeEventListener("pointermove", onMove); removeEventListener("pointerup", onUp); };
    target.addEventListener("pointermove", onMove);
    addEventListener("pointerup", onUp);
  });
}
function panning(event) {
  const [a, b] = state.view, each = (b - a) / plotWidth();
  return far => { const shift = clamp(-far * each, -a, state.run.length - b); show(a + shift, b + shift); };
}
function brushing(event) {
  const run = state.run, box = byId("overview").getBoundingClientRect(), each = run.length / plotWidth();
  const at = clamp((event.clientX - box.left - NAMES) * each, 0, run.length), [a, b] = state.view;
  const edge = event.target.dataset.edge;
  if (edge === "0") return far => show(Math.min(a + far * each, b - SHORTEST), b);
  if (edge === "1") return far => show(a, Math.max(b + far * each, a + SHORTEST));
  const whole = b - a > run.length * .995;
  if (!whole && at >= a && at <= b) return far => { const shift = clamp(far * each, -a, run.length - b); show(a + shift, b + shift); };
  if (!whole) show(at - (b - a) / 2, at + (b - a) / 2);
  return far => { const end = clamp(at + far * each, 0, run.length); show(Math.min(at, end), Math.max(at, end)); };
}
function onWheel(event) {
  const box = byId("lanes").getBoundingClientRect(), head = event.currentTarget.id !== "lanes";
  if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    event.preventDefault();
    pan(clamp((event.deltaX || event.deltaY) / plotWidth(), -.5, .5));
  } else if (head || event.ctrlKey || event.metaKey) {
    event.preventDefault();
    const x = clamp(event.clientX - box.left, NAMES, state.width - RIGHT);
    zoom(Math.exp(clamp(event.deltaY, -120, 120) / 300), tOf(x));
  }
}

/* The address says what is shown, so that it can be sent to somebody. */
function remember() {
  const run = state.run, found = new URLSearchParams();
  if (MODEL.runs.length > 1) found.set("run", run.name);
  if (state.view[0] > 0 || state.view[1] < run.length) found.set("time", state.view.map(t => Math.round(t)).join("-"));
  for (const name of ["find", "pool", "team", "check", "kind"]) if (state[name]) found.set(name, state[name]);
  if (state.open) found.set("open", `${state.open.row.replace(/^node:(\d+)$/, (_, place) => `node:${run.nodes[place].name}`)} ${state.open.item}`);
  const text = found.toString().replaceAll("%3A", ":");
  if (text !== location.hash.slice(1)) history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
}
function recall() {
  const found = new URLSearchParams(location.hash.slice(1));
  const place = Math.max(0, MODEL.runs.findIndex(run => run.name === found.get("run")));
  use(place);
  for (const name of ["find", "pool", "team", "check", "kind"]) state[name] = found.get(name) || "";
  const time = (found.get("time") || "").split("-").map(Number);
  const ok = time.length === 2 && time.every(Number.isFinite) && time[0] < time[1];
  state.view = ok ? [clamp(time[0], 0, state.run.length - 1), clamp(time[1], 1, state.run.length)] : [0, state.run.length];
  fillFilters();
  renderNow();
  const open = found.get("open") || "", cut = open.lastIndexOf(" ");
  if (cut < 0) return;
  const node = open.startsWith("node:") ? state.run.nodes.findIndex(one => one.name === open.slice(5, cut)) : -1;
  if (node >= 0 && state.run.quiet[node]) { state.unfolded.add(state.run.nodes[node].pool); renderNow(); }
  choose(open.startsWith("node:") ? `node:${node}` : open.slice(0, cut), open.slice(cut + 1));
  renderNow();
  const row = rowAt.get(state.open && state.open.row);
  if (row) scrollTo(0, scrollY + byId("lanes").getBoundingClientRect().top + row.y - innerHeight / 2);
}

function options(select, name, all, chosen) {
  select.replaceChildren(html("option", {value: ""}, name), ...all.map(([value, text]) => html("option", {value, selected: value === chosen}, text)));
}
function fillFilters() {
  const run = state.run;
  options(byId("by-pool"), "all", run.pools.map(pool => [pool.name, pool.name]), state.pool);
  options(byId("by-team"), "all", run.teams.map(team => [team.name, team.name]), state.team);
  byId("by-team").parentElement.hidden = !run.teams.length;
  options(byId("by-check"), "all", run.checkNames.map(name => [name, name]), state.check);
  options(byId("by-kind"), "all", run.kinds.map(kind => [kind, KINDS[kind] ? KINDS[kind][0] : kind]), state.kind);
  byId("find").value = state.find;
}
function filter() {
  state.find = byId("find").value.trim();
  state.pool = byId("by-pool").value;
  state.team = byId("by-team").value;
  state.check = byId("by-check").value;
  state.kind = byId("by-kind").value;
  const run = state.run, any = isNarrowed();
  for (const row of document.querySelectorAll(`#run-${run.place} tr[data-mark]`)) {
    const mark = run.marks[row.dataset.mark];
    row.hidden = any && !(isOf(run.nodes[mark.n]) && matches(mark));
  }
  remember();
  render();
}

const THEMES = {auto: "Theme: system", light: "Theme: light", dark: "Theme: dark"};
function theme(chosen) {
  const root = document.documentElement, toggle = byId("theme");
  if (chosen === "auto") root.removeAttribute("data-theme"); else root.dataset.theme = chosen;
  toggle.textContent = THEMES[chosen];
  toggle.hidden = false;
  toggle.onclick = () => theme({auto: "light", light: "dark", dark: "auto"}[chosen]);
}
function printing(on) {
  if (state.print === on) return;
  state.print = on;
  renderNow();
}
