/* The chart by keyboard: one tab stop, arrows inside it. */
let goal = null;
/* Up and down keep to the place on the time axis where they began. */
function move(dx, dy) {
  const row = state.active && rowAt.get(state.active.row);
  if (!row) { state.active = firstItem(); return; }
  const items = itemsOf(row), at = Math.max(0, items.findIndex(item => holds(item, state.active.item)));
  if (dx) {
    const item = items[clamp(at + dx, 0, items.length - 1)];
    if (item) state.active = {row: row.key, item: item.key};
    goal = null;
    return;
  }
  if (goal === null) goal = items[at] ? items[at].x : 0;
  const from = goal, isName = at === 0 && row.kind === "lane";
  for (let place = row.place + dy; place >= 0 && place < rows.length; place += dy) {
    const found = itemsOf(rows[place]);
    if (!found.length) continue;
    const named = rows[place].kind === "lane";
    /* From a name to a name, from a mark to the nearest mark. */
    const others = named && !isName && found.length > 1 ? found.slice(1) : found;
    const best = isName ? found[0] : others.reduce((near, item) => Math.abs(item.x - from) < Math.abs(near.x - from) ? item : near);
    state.active = {row: rows[place].key, item: best.key};
    return;
  }
}
function onLaneKey(event) {
  const act = {
    ArrowLeft: () => event.shiftKey ? pan(-.25) : move(-1, 0), ArrowRight: () => event.shiftKey ? pan(.25) : move(1, 0),
    ArrowUp: () => move(0, -1), ArrowDown: () => move(0, 1), Home: () => move(-Infinity, 0), End: () => move(Infinity, 0),
    PageUp: () => { for (let n = 0; n < 12; n++) move(0, -1); }, PageDown: () => { for (let n = 0; n < 12; n++) move(0, 1); },
    Enter: () => openActive(), " ": () => openActive(),
  }[event.key];
  if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  act();
  renderNow();
  focusActive();
}
function openActive() {
  if (state.active) choose(state.active.row, state.active.item);
}
function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && state.open) { event.preventDefault(); closeDetails(); return; }
  if (event.target.closest("input,select,textarea")) return;
  const act = {"+": () => zoom(.6), "=": () => zoom(.6), "-": () => zoom(1 / .6), "0": () => show(0, state.run.length), "/": () => byId("find").focus()}[event.key];
  if (act) { event.preventDefault(); act(); }
}
