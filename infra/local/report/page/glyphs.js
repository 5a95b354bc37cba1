/* A shape for every kind of mark, so that none is told by its colour alone. */
const KINDS = {
  /* kind: [word, tone, weight when many stand at one place, shape] */
  raise: ["to be emptied", "bad", 100, "chevron"],
  cordon: ["cordoned", "bad", 99, "square"],
  dismiss: ["dismissed", "hold", 97, "cross"],
  drained: ["emptied", "stop", 96, "hollow"],
  uncordon: ["released", "good", 95, "disc"],
  "start-drain": ["drain begins", "stop", 94, "play"],
  hold: ["held back", "hold", 93, "octagon"],
  "stop-drain": ["left alone", "hold", 92, "slash"],
  "collect-evidence": ["evidence collected", "quiet", 56, "ring"],
  terminate: ["machine is ended", "bad", 98, "void"],
  terminated: ["machine has ended", "stop", 91, "void"],
  "vm-replaced": ["replaced", "good", 95, "swap"],
  "no-replacement": ["no replacement", "bad", 97, "void"],
  "vm-gone": ["ended without us", "hold", 91, "void"],
  "reset-asked": ["GPU reset asked for", "stop", 88, "turn"],
  "reboot-asked": ["reboot asked for", "stop", 89, "turn"],
  rebooted: ["booted anew", "good", 88, "turn"],
  "at-risk": ["seven days at risk", "hold", 95, "octagon"],
  withdraw: ["end withdrawn", "hold", 92, "slash"],
  "clock-stopped": ["clock stopped", "quiet", 58, "ring-off"],
  "hook-completed": ["hook completed", "stop", 57, "tick"],
  "hardware-back": ["same hardware again", "bad", 98, "square"],
  gone: ["machine gone", "world", 91, "void"],
  replaced: ["another machine", "world", 90, "swap"],
  registered: ["registered anew", "world", 89, "swap"],
  reboot: ["rebooted", "world", 88, "turn"],
  deleted: ["pod deleted", "bad", 87, "down2"],
  "cordoned-by-others": ["cordoned by others", "world", 86, "person"],
  "uncordoned-by-others": ["uncordoned by others", "world", 85, "person-off"],
  refused: ["eviction refused", "hold", 84, "down-no"],
  wait: ["waits", "quiet", 30, "pause"],
  open: ["noted", "quiet", 60, "ring"],
  close: ["closed", "quiet", 59, "ring-off"],
  evict: ["evicting", "stop", 50, "down"],
  evicted: ["pod evicted", "stop", 40, "down"],
  gpus: ["GPU count", "world", 39, "grid"],
  said: ["turned bad", "bad", 20, "bolt"],
  well: ["turned good", "good", 19, "tick"],
  nothing: ["nothing to do", "quiet", 1, "dot"],
};
/* Drawn around 0,0, about 12 across. F is filled with the tone, S is only its line. */
const SHAPES = {
  square: [["F", "M-5-5H5V5H-5Z"]],
  chevron: [["F", "M0-6L6 0H2.5V6H-2.5V0H-6Z"]],
  play: [["F", "M-4-6L6 0L-4 6Z"]],
  hollow: [["H", "M0-6L6 0L0 6L-6 0Z"]],
  disc: [["F", "M0-5.5A5.5 5.5 0 1 1 0 5.5A5.5 5.5 0 1 1 0-5.5Z"], ["K", "M-2.6 0L-.8 2L2.8-2"]],
  octagon: [["F", "M-2.4-6H2.4L6-2.4V2.4L2.4 6H-2.4L-6 2.4V-2.4Z"], ["K", "M-2.8 0H2.8"]],
  slash: [["H", "M0-5.5A5.5 5.5 0 1 1 0 5.5A5.5 5.5 0 1 1 0-5.5Z"], ["S", "M-3.8 3.8L3.8-3.8"]],
  cross: [["S2", "M-4.5-4.5L4.5 4.5M4.5-4.5L-4.5 4.5"]],
  void: [["H", "M-5-5H5V5H-5Z"], ["S", "M-5-5L5 5M5-5L-5 5"]],
  swap: [["S", "M-5-2.5H4M1.5-5L4.5-2.5L1.5 0M5 2.5H-4M-1.5 0L-4.5 2.5L-1.5 5"]],
  turn: [["S", "M4.6-1.5A5 5 0 1 0 4.6 2M5-5.2V-1.4H1.2"]],
  down: [["S", "M0-5V4M-3.5 .8L0 4.6L3.5 .8"]],
  down2: [["S", "M0-5V4M-3.5 .8L0 4.6L3.5 .8M-4-5H4"]],
  "down-no": [["S", "M0-5V1M-3.5-2L0 1.6L3.5-2M-5 5H5"]],
  person: [["F", "M0-6A2.6 2.6 0 1 1 0-.8A2.6 2.6 0 1 1 0-6Z"], ["F", "M-5 6C-5 1.6-2.5 .6 0 .6S5 1.6 5 6Z"]],
  "person-off": [["H", "M0-6A2.6 2.6 0 1 1 0-.8A2.6 2.6 0 1 1 0-6Z"], ["H", "M-5 6C-5 1.6-2.5 .6 0 .6S5 1.6 5 6Z"]],
  pause: [["S2", "M-2.4-4.5V4.5M2.4-4.5V4.5"]],
  ring: [["H", "M0-4.2A4.2 4.2 0 1 1 0 4.2A4.2 4.2 0 1 1 0-4.2Z"]],
  "ring-off": [["H", "M0-4.2A4.2 4.2 0 1 1 0 4.2A4.2 4.2 0 1 1 0-4.2Z"], ["S", "M-2 0L-.5 1.6L2.2-1.6"]],
  grid: [["S", "M-4.5-4.5H4.5V4.5H-4.5ZM-4.5 0H4.5M0-4.5V4.5"]],
  bolt: [["F", "M1.5-6.5L-4.5 1H-.5L-1.5 6.5L4.5-1.2H.6Z"]],
  tick: [["S2", "M-4.5 .5L-1.2 4L4.8-4"]],
  dot: [["F", "M0-2A2 2 0 1 1 0 2A2 2 0 1 1 0-2Z"]],
  pin: [["F", "M0 5L-4.5-2.5A4.9 4.9 0 1 1 4.5-2.5Z"]],
};
function shape(name, tone) {
  const ink = `var(--${tone})`;
  const paint = {
    F: {fill: ink, stroke: ink, "stroke-width": 1},
    H: {fill: "var(--bg)", stroke: ink, "stroke-width": 1.9},
    S: {fill: "none", stroke: ink, "stroke-width": 1.8},
    S2: {fill: "none", stroke: ink, "stroke-width": 2.6},
    K: {fill: "none", stroke: "var(--bg)", "stroke-width": 1.8},
  };
  return svg("g", {class: "glyph"}, SHAPES[name].map(([how, d]) => svg("path", {d, ...paint[how]})));
}
const wordOf = mark => mark.k === "wait" && mark.blocked ? "blocked" : (KINDS[mark.k] || [mark.k])[0];
function glyphOf(mark) {
  const [, tone, , name] = KINDS[mark.k] || KINDS.nothing;
  return mark.k === "wait" && mark.blocked ? shape(name, "hold") : shape(name, tone);
}
const weightOf = mark => mark.k === "wait" && mark.blocked ? 93.5 : (KINDS[mark.k] || KINDS.nothing)[2];
const icon = inner => svg("svg", {viewBox: "-9 -9 18 18", "aria-hidden": "true", focusable: "false"}, inner);

/* Bars of states: every one has its own pattern or outline beside its colour. */
const BARS = {
  watch: {height: 4, dash: "2 2"}, held: {height: 8, dash: "4 2"}, cordon: {height: 14},
  evict: {height: 14, pattern: "slant"}, draining: {height: 14, pattern: "slant"},
  blocked: {height: 14, pattern: "cross"}, drained: {height: 14, hollow: true},
  others: {height: 14, pattern: "dots"}, dismissed: {height: 6, dash: "1 2"}, gone: {height: 0},
};
function patterns() {
  const of = (name, tone, ...inner) => svg("pattern", {id: `p-${name}-${tone}`, width: 6, height: 6, patternUnits: "userSpaceOnUse"},
    svg("rect", {width: 6, height: 6, fill: `var(--${tone})`}), inner);
  const line = (d, tone) => svg("path", {d, stroke: `var(--${tone}-edge)`, "stroke-width": 1, "stroke-opacity": .55, fill: "none"});
  return svg("defs", null,
    of("slant", "evict", line("M-1 7L7-1M-1 1L1-1M5 7L7 5", "evict")),
    of("slant", "draining", line("M-1 7L7-1M-1 1L1-1M5 7L7 5", "draining")),
    of("cross", "blocked", line("M-1 7L7-1M-1-1L7 7", "blocked")),
    of("dots", "others", svg("circle", {cx: 3, cy: 3, r: 1, fill: "var(--others-edge)"})),
    of("slant", "breaker", line("M-1-1L7 7", "breaker")),
    of("dots", "pause", svg("circle", {cx: 3, cy: 3, r: .8, fill: "var(--pause-edge)"})),
    of("cross", "away", line("M-1 7L7-1M-1-1L7 7", "away")));
}
/* The bar of a state from x to x + width, around y. */
function bar(key, x, width, y) {
  const look = BARS[key];
  if (!look) return null;
  if (key === "gone") return svg("path", {d: `M${x} ${y}h${Math.max(width, 3)}`, stroke: "var(--gone-edge)", "stroke-width": 1.5, "stroke-dasharray": "2 4"});
  const fillOf = look.pattern ? `url(#p-${look.pattern}-${key})` : `var(--${key})`;
  return svg("rect", {x: x + .5, y: y - look.height / 2, width: Math.max(width - 1, 2.5), height: look.height, rx: 2,
    fill: fillOf, stroke: `var(--${key}-edge)`, "stroke-width": look.hollow ? 1.8 : 1.2, "stroke-dasharray": look.dash || null});
}
