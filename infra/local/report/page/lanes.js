/* Only the rows that are seen are drawn, and drawn anew whenever anything changes: a few hundred
   shapes, however many nodes there are. */
const SPARE = 4;
let planned = false;
function render() {
  if (planned) return;
  planned = true;
  requestAnimationFrame(() => { planned = false; renderNow(); });
}
function renderNow() {
  const home = byId("lanes");
  if (!home || !state.run) return;
  state.width = state.print ? 1040 : Math.max(320, home.clientWidth);
  layOut();
  drawOverview();
  drawAxis();
  home.style.height = `${total}px`;
  if (state.print) renderPrint(home); else renderSeen(home);
}
function renderSeen(home) {
  /* Beside the chart the panel ends where the chart ends, or it would be pushed out at the top. */
  const panel = byId("panel"), beside = getComputedStyle(panel).position === "sticky";
  panel.style.maxHeight = beside ? `${clamp(stage.getBoundingClientRect().bottom - 8, 260, innerHeight - 16)}px` : "";
  const top = -home.getBoundingClientRect().top;
  const seen = rows.filter(row => row.y + row.height > top - SPARE * LANE && row.y < top + innerHeight + SPARE * LANE);
  const focused = home.contains(document.activeElement);
  const active = state.active && rowAt.get(state.active.row);
  /* Who goes through the marks by keyboard must not lose his place when it is scrolled away. */
  if (active && !seen.includes(active)) seen.push(active);
  if (!state.active || !active) state.active = firstItem();
  const y = seen.length ? Math.min(...seen.map(row => row.y)) : 0;
  const height = seen.length ? Math.max(...seen.map(row => row.y + row.height)) - y : 0;
  const picture = svg("svg", {height, viewBox: `0 0 ${state.width} ${height}`, role: "presentation", focusable: "false"},
    svg("g", null, gridLines(height)), seen.map(row => svg("g", {transform: `translate(0 ${row.y - y})`}, DRAW[row.kind](row))), chosenLine(height),
    svg("path", {class: "cross", id: "cross", d: ""}));
  picture.style.top = `${y}px`;
  picture.style.height = `${height}px`;
  const had = focused && {...state.active};
  home.replaceChildren(picture);
  if (!home.querySelector("[tabindex='0']")) {
    const any = home.querySelector(".item");
    if (any) any.setAttribute("tabindex", "0");
  }
  if (had) focusActive(false);
}
function renderPrint(home) {
  /* In pieces, so that a sheet does not end in the middle of a row. */
  const sheets = [];
  for (let at = 0; at < rows.length;) {
    const begin = at;
    while (at < rows.length && rows[at].y + rows[at].height - rows[begin].y < 560) at++;
    const part = rows.slice(begin, Math.max(at, begin + 1)), y = part[0].y, end = part[part.length - 1];
    at = begin + part.length;
    const height = end.y + end.height - y;
    const sheet = svg("svg", {viewBox: `0 0 ${state.width} ${height}`, role: "presentation"},
      svg("g", null, gridLines(height)), part.map(row => svg("g", {transform: `translate(0 ${row.y - y})`}, DRAW[row.kind](row))));
    sheets.push(sheet);
  }
  home.replaceChildren(...sheets);
}
function chosenLine(height) {
  const item = state.open && openItem();
  if (!item || item.t === null || item.t === undefined || !inView(item)) return null;
  return svg("path", {class: "chosen-line", d: `M${item.x.toFixed(1)} 0V${height}`});
}
function openItem() {
  const row = state.open && rowAt.get(state.open.row);
  return row ? itemsOf(row).find(item => holds(item, state.open.item)) : null;
}
function firstItem() {
  for (const row of rows) {
    const [item] = itemsOf(row);
    if (item) return {row: row.key, item: item.key};
  }
  return null;
}
function focusActive(scroll = true) {
  if (!state.active) return;
  const row = rowAt.get(state.active.row);
  if (!row) return;
  const found = [...byId("lanes").querySelectorAll(".item")].find(element => element.dataset.row === row.key
    && element.getAttribute("tabindex") === "0");
  if (scroll) {
    const top = byId("lanes").getBoundingClientRect().top + row.y, head = document.querySelector(".sticky").offsetHeight;
    if (top < head + 4) scrollBy(0, top - head - 40);
    else if (top + row.height > innerHeight - 4) scrollBy(0, top + row.height - innerHeight + 60);
  }
  if (found) found.focus({preventScroll: true});
}
