/* Show a run: its section, with the chart in it. */
function use(place) {
  const run = index(MODEL.runs[place]);
  run.place = place;
  Object.assign(state, {run, begin: Date.parse(run.start), view: [0, run.length], active: null, open: null, find: "", pool: "", team: "", check: "", kind: ""});
  state.unfolded.clear();
  for (const section of document.querySelectorAll(".run")) section.hidden = section.dataset.run !== String(place);
  document.querySelector(`#run-${place} .chart-home`).append(stage);
  document.querySelector(".skip").setAttribute("href", `#decisions-${place}`);
  if (byId("picker")) byId("picker").value = String(place);
  byId("details").replaceChildren();
  byId("panel").classList.remove("opened");
  legend();
}
const stage = byId("chart-parts").content.firstElementChild.cloneNode(true);

(() => {
  const shared = svg("svg", {width: 0, height: 0, "aria-hidden": "true", focusable: "false"}, patterns());
  shared.style.position = "absolute";
  document.body.append(shared);
  recall();
  theme("auto");
  const lanes = byId("lanes");
  lanes.addEventListener("keydown", onLaneKey);
  lanes.addEventListener("click", event => {
    const item = event.target.closest(".item");
    if (item) { goal = null; choose(item.dataset.row, item.dataset.item); renderNow(); focusActive(false); }
  });
  lanes.addEventListener("focusin", event => {
    const item = event.target.closest(".item");
    if (item) state.active = {row: item.dataset.row, item: item.dataset.item};
  });
  lanes.addEventListener("pointermove", event => {
    const line = byId("cross"), x = event.clientX - lanes.getBoundingClientRect().left;
    if (!line) return;
    const seen = x >= NAMES && x <= state.width - RIGHT;
    line.setAttribute("d", seen ? `M${x} 0V${lanes.clientHeight}` : "");
    crossWord(seen ? x : null);
  });
  lanes.addEventListener("pointerleave", () => { const line = byId("cross"); if (line) line.setAttribute("d", ""); crossWord(null); });
  drag(lanes, panning);
  drag(byId("axis"), panning);
  drag(byId("overview"), brushing);
  for (const id of ["lanes", "axis", "overview"]) byId(id).addEventListener("wheel", onWheel, {passive: false});
  byId("overview").addEventListener("keydown", event => {
    const act = {ArrowLeft: () => pan(-.1), ArrowRight: () => pan(.1), ArrowUp: () => zoom(.8), ArrowDown: () => zoom(1.25),
      Home: () => show(0, state.view[1] - state.view[0]), End: () => show(state.run.length - (state.view[1] - state.view[0]), state.run.length),
      PageUp: () => pan(-1), PageDown: () => pan(1)}[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  byId("closer").onclick = () => zoom(.6);
  byId("farther").onclick = () => zoom(1 / .6);
  byId("earlier").onclick = () => pan(-.25);
  byId("later").onclick = () => pan(.25);
  byId("whole").onclick = () => show(0, state.run.length);
  document.querySelector(".toolbar").addEventListener("submit", event => event.preventDefault());
  for (const id of ["find", "by-pool", "by-team", "by-check", "by-kind"]) byId(id).addEventListener("input", filter);
  if (byId("picker")) byId("picker").onchange = event => { use(Number(event.target.value)); fillFilters(); remember(); renderNow(); };
  addEventListener("keydown", onKey);
  addEventListener("scroll", render, {passive: true});
  addEventListener("resize", render);
  addEventListener("hashchange", () => { if (location.hash.includes("=") || !location.hash) recall(); });
  addEventListener("beforeprint", () => printing(true));
  addEventListener("afterprint", () => printing(false));
  matchMedia("print").addEventListener("change", event => printing(event.matches));
  if (isNarrowed()) filter();
})();

/* The time below the pointer, on the axis. */
function crossWord(x) {
  const axis = byId("axis"), old = axis.querySelector(".at");
  if (old) old.remove();
  if (x === null) return;
  const text = whenOf(tOf(x)), wide = measure(text) + 10, left = clamp(x - wide / 2, NAMES - 20, state.width - wide);
  axis.append(svg("g", {class: "at"}, svg("rect", {x: left, y: 14, width: wide, height: 16, rx: 3, fill: "var(--ink)"}),
    svg("text", {x: left + 5, y: 26, style: null, fill: "var(--bg)", class: "on-ink"}, text)));
}
