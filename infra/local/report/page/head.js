/* What stays on top: the whole time with the part that is shown, and the axis. */
function drawOverview() {
  const target = byId("overview"), run = state.run, width = state.width, height = 38, base = 34;
  const scale = t => NAMES + t / run.length * plotWidth();
  const bins = run.heard.length || 1, each = plotWidth() / bins, decided = Array(bins).fill(0);
  for (const mark of run.marks) if (mark.f) decided[Math.min(bins - 1, Math.floor(mark.t / run.length * bins))]++;
  const most = Math.max(1, ...decided);
  const column = (count, high) => count ? Math.max(2, Math.sqrt(count / high) * 26) : 0;
  const bars = [];
  for (let at = 0; at < bins; at++) {
    const x = (NAMES + at * each).toFixed(1), heard = column(run.heard[at] || 0, run.most), done = column(decided[at], most);
    if (heard) bars.push(svg("rect", {class: "histogram", x, y: base - heard, width: Math.max(each - .5, 1), height: heard}));
    if (done) bars.push(svg("rect", {class: "decided", x, y: base - done, width: Math.max(Math.min(each - .5, 3), 1.5), height: done}));
  }
  const days = [];
  for (let t = (DAY - state.begin % DAY) % DAY; t < run.length; t += DAY) days.push(svg("path", {class: "day", d: `M${scale(t).toFixed(1)} 4V${base}`}));
  const a = scale(state.view[0]), b = Math.max(scale(state.view[1]), a + 4);
  target.replaceChildren(...days, ...bars, svg("path", {class: "day", d: `M${NAMES} ${base + .5}H${width - RIGHT}`}),
    label("Decisions", 0, 16, "soft"), label("and events heard", 0, 30, "soft"),
    svg("rect", {class: "brush", x: a, y: 2, width: b - a, height: height - 4, rx: 2}),
    svg("rect", {class: "handle", "data-edge": 0, x: a - 2, y: 10, width: 4, height: 18, rx: 2}),
    svg("rect", {class: "handle", "data-edge": 1, x: b - 2, y: 10, width: 4, height: 18, rx: 2}));
  const middle = (state.view[0] + state.view[1]) / 2 / run.length * 100;
  target.setAttribute("aria-valuenow", middle.toFixed(0));
  target.setAttribute("aria-valuetext", `${whenOf(state.view[0], false)} to ${whenOf(state.view[1], false)}`);
}

function drawAxis() {
  const {step, found} = ticks(), parts = [];
  let free = NAMES - 8;
  /* Days first: their words are the ones that must not be missing. */
  const words = [], whole = found.filter(isDay);
  const first = whole[0] === undefined ? Infinity : xOf(whole[0]);
  if (first - NAMES > 62) words.push([NAMES, dayOf(state.view[0])]);
  for (const t of whole) words.push([xOf(t), dayOf(t)]);
  for (const [x, text] of words) {
    if (x < free || x + measure(text) > state.width) continue;
    parts.push(label(text, x + (x > NAMES ? 4 : 0), 12, "strong"));
    free = x + measure(text) + 14;
  }
  let next = 0;
  for (const t of found) {
    const x = xOf(t);
    parts.push(svg("path", {class: isDay(t) ? "day" : "grid", d: `M${x.toFixed(1)} ${isDay(t) ? 2 : 22}V30`}));
    const text = clockOf(t, step < MINUTE), wide = measure(text);
    if (step < DAY && x + 4 >= next && x + wide + 4 < state.width) { parts.push(label(text, x + 4, 26, "soft")); next = x + wide + 12; }
  }
  /* On paper the axis grows and shrinks with the lanes below it. */
  if (state.print) byId("axis").setAttribute("viewBox", `0 0 ${state.width} 31`); else byId("axis").removeAttribute("viewBox");
  byId("axis").replaceChildren(label(`${lengthOf(state.view[1] - state.view[0])} shown`, 0, 22, "soft"), ...parts);
}
function gridLines(height) {
  return ticks().found.map(t => svg("path", {class: isDay(t) ? "day" : "grid", d: `M${xOf(t).toFixed(1)} 0V${height}`}));
}
