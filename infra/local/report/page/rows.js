/* Which rows there are, and what can be chosen in each. */
const LANE = 22, NEAR = 13;
const checkOf = mark => {
  if (mark.incident) return mark.incident.split("/")[1] || "";
  if (mark.k === "said" || mark.k === "well") return mark.text.split("=")[0];
  return mark.k === "gpus" ? "gpu-count" : "";
};

/* Once for each run: its marks by node, and what the filters offer. */
function index(run) {
  if (run.byNode) return run;
  for (const name of ["nodes", "marks", "calls", "story", "checks", "bands", "pools", "teams", "heard"]) run[name] = run[name] || [];
  run.byNode = run.nodes.map(() => []);
  run.marks.forEach((mark, place) => { mark.place = place; mark.check = checkOf(mark); run.byNode[mark.n].push(mark); });
  run.nodes.forEach((node, place) => { node.place = place; });
  const eventful = node => run.byNode[node.place].length || (node.states || []).length > 1 || (node.clocks || []).length;
  run.quiet = run.nodes.map(node => !eventful(node));
  run.kinds = [...new Set(run.marks.map(mark => mark.k))].sort((a, b) => KINDS[b][2] - KINDS[a][2]);
  run.checkNames = [...new Set(run.marks.map(mark => mark.check).filter(Boolean))].sort();
  run.story.forEach((said, place) => {
    const until = place + 1 < run.story.length ? Math.max(run.story[place + 1].t, said.t + 1) : run.length;
    said.weight = run.marks.reduce((count, mark) => count + (mark.t >= said.t && mark.t < until && mark.k !== "well" ? 1 : 0), 0);
  });
  run.most = Math.max(1, ...run.heard);
  return run;
}
const isFiltered = () => Boolean(state.find || state.check || state.kind);
const isNarrowed = () => isFiltered() || Boolean(state.pool || state.team);
const isOf = node => (!state.pool || node.pool === state.pool) && (!state.team || node.team === state.team);

function matches(mark) {
  if (state.kind && mark.k !== state.kind) return false;
  if (state.check && mark.check !== state.check) return false;
  if (!state.find) return true;
  if (!mark.words) {
    const call = mark.call === undefined ? null : state.run.calls[mark.call];
    const {name, team} = state.run.nodes[mark.n];
    mark.words = [name, team, mark.k, wordOf(mark), mark.text, mark.incident, mark.evidence,
      ...(mark.blocked || []), call && call.id].filter(Boolean).join("\n").toLowerCase();
  }
  return mark.words.includes(state.find.toLowerCase());
}
const shownMarks = node => isFiltered() ? state.run.byNode[node].filter(matches) : state.run.byNode[node];

/* More teams than these are folded, but for those that lost nodes. No pool has that name. */
const MOST_TEAMS = 6, SPARED = " teams";
const lostAny = team => (team.out || []).some(one => one.ours || one.others);
let rows = [], rowAt = new Map(), total = 0;
function layOut() {
  const run = state.run;
  rows = [];
  if (run.story.length) rows.push({key: "story", kind: "story", height: storyHeight()});
  if (run.checks.length) rows.push({key: "checks", kind: "checks", height: 26});
  if (run.bands.length) rows.push({key: "stops", kind: "stops", height: stopsHeight()});
  rows.push({key: "cluster", kind: "band", group: run.cluster, height: 58});
  const bandOf = team => ({key: `team:${team.name}`, kind: "band", group: team, isTeam: true, height: 38});
  const teams = run.teams.filter(team => !state.team || team.name === state.team);
  const [hit, spared] = teams.length > MOST_TEAMS ? [teams.filter(lostAny), teams.filter(team => !lostAny(team))] : [teams, []];
  rows.push(...hit.map(bandOf));
  if (spared.length) {
    const open = state.unfolded.has(SPARED) && !state.print;
    rows.push({key: `fold:${SPARED}`, kind: "fold", pool: {name: SPARED}, count: spared.length, open, height: 28});
    if (open) rows.push(...spared.map(bandOf));
  }
  const lane = node => ({key: `node:${node.place}`, kind: "lane", node, height: LANE});
  const {pools, lanes, marks} = sorted();
  for (const {pool, busy, rest} of pools) {
    rows.push({key: `pool:${pool.name}`, kind: "band", group: pool, height: 46}, ...busy.map(lane));
    if (!rest.length) continue;
    const open = state.unfolded.has(pool.name) && !state.print;
    rows.push({key: `fold:${pool.name}`, kind: "fold", pool, count: rest.length, open, height: 28});
    if (open) rows.push(...rest.map(lane));
  }
  let y = 0;
  rowAt = new Map();
  rows.forEach((row, place) => { row.place = place; row.y = y; y += row.height; rowAt.set(row.key, row); });
  total = y;
  const all = plural(run.nodes.length, "node"), filtered = isNarrowed();
  const text = lanes ? `${lanes.toLocaleString("en")} of ${all} ${filtered ? "fit the filters" : "have something to tell"}: ${plural(marks, "mark")}`
    : filtered ? "Nothing fits these filters." : "No node has anything to tell.";
  if (byId("count").textContent !== text) byId("count").textContent = text;
}
/* By pool, the nodes that have something to tell under these filters, and the others. */
let sortedFor = "", sortedNodes = null;
function sorted() {
  const run = state.run, key = [run.place, state.find, state.pool, state.team, state.check, state.kind].join("\n");
  if (key === sortedFor) return sortedNodes;
  const found = state.find.toLowerCase(), named = found && !state.check && !state.kind;
  const fits = node => isFiltered() ? (named && node.name.toLowerCase().includes(found)) || run.byNode[node.place].some(matches) : !run.quiet[node.place];
  const pools = [];
  let lanes = 0, marks = 0;
  for (const pool of run.pools) {
    if (state.pool && pool.name !== state.pool) continue;
    const busy = [], rest = [];
    for (const node of run.nodes) if (node.pool === pool.name && isOf(node)) (fits(node) ? busy : rest).push(node);
    if (state.team && !busy.length && !rest.length) continue;
    if (isFiltered() && !busy.length) continue;
    pools.push({pool, busy, rest});
    lanes += busy.length;
    for (const node of busy) marks += shownMarks(node.place).length;
  }
  [sortedFor, sortedNodes] = [key, {pools, lanes, marks}];
  return sortedNodes;
}

/* Marks that would cover each other become one, which opens all of them. */
function clusters(marks) {
  const found = [];
  for (const mark of marks) {
    if (mark.t < state.view[0] - 1 || mark.t > state.view[1] + 1) continue;
    const x = xOf(mark.t), last = found[found.length - 1];
    if (last && x - last.x < NEAR) {
      last.marks.push(mark);
      if (weightOf(mark) > weightOf(last.best)) last.best = mark;
    } else found.push({x, marks: [mark], best: mark});
  }
  return found;
}

/* The items of a row from left to right: key, place on the axis, words for those who do not see
   the picture, and what it holds. */
function itemsOf(row) {
  const run = state.run;
  if (row.kind === "lane") {
    const name = {key: "n", type: "node", node: row.node, x: 0, t: null, label: nodeLabel(row.node)};
    return [name, ...clusters(shownMarks(row.node.place)).map(one => ({
      key: `m${one.marks[0].place}`, type: "marks", node: row.node, x: one.x, t: one.marks[0].t, marks: one.marks, best: one.best,
      label: marksLabel(row.node, one),
    }))];
  }
  if (row.kind === "story") return storyClusters();
  if (row.kind === "checks") return checkClusters();
  if (row.kind === "stops") return run.bands.map((band, place) => ({
    key: `b${place}`, type: "band", band, t: band.a, x: xOf(Math.max(band.a, state.view[0])), label: bandLabel(band),
  })).filter(item => item.band.b >= state.view[0] && item.band.a <= state.view[1]);
  if (row.kind === "fold" && !state.print) return [{key: "f", type: "fold", pool: row.pool, x: 0, t: null,
    label: `${row.open ? "Fold" : "Show"} ${foldText(row)}${row.pool.name === SPARED ? "" : ` of ${row.pool.name}`}`}];
  return [];
}
const inView = item => item.t >= state.view[0] && item.t <= state.view[1];
const foldText = row => row.pool.name === SPARED ? `${plural(row.count, "team")} lost no node`
  : isFiltered() ? plural(row.count, "other node") : plural(row.count, "quiet node");

/* Where there are so many that their pins would be one bar, those that stand together are one. */
const CROWDED = 60;
function storyClusters() {
  const seen = state.run.story.map((said, place) => ({said, place, t: said.t})).filter(inView), found = [];
  for (const {said, place, t} of seen) {
    const x = xOf(t), last = found[found.length - 1];
    if (seen.length > CROWDED && last && x - last.x < NEAR) {
      last.all.push(place);
      if (weightOfSaid(place) > weightOfSaid(last.place)) Object.assign(last, {said, place});
    } else found.push({key: `s${place}`, type: "story", said, place, all: [place], t, x});
  }
  for (const one of found) one.label = `${whenOf(one.t, false)}: ${one.said.text}${one.all.length > 1 ? `, and ${one.all.length - 1} more` : ""}`;
  return found;
}

function checkClusters() {
  const found = [];
  state.run.checks.forEach((check, place) => {
    if (check.t < state.view[0] || check.t > state.view[1]) return;
    const x = Math.min(xOf(check.t), state.width - RIGHT - 6), last = found[found.length - 1];
    if (last && x - last.x < 26) { last.checks.push(check); last.ok = last.ok && check.ok; }
    else found.push({key: `c${place}`, type: "checks", x, t: check.t, checks: [check], ok: check.ok});
  });
  for (const one of found) one.label = `${whenOf(one.t, false)}: ${plural(one.checks.length, "expectation")}, ${one.ok ? "held" : "not all held"}`;
  return found;
}
const bandLabel = band => `${band.pool ? `${band.pool}: ` : ""}${band.text}, ${whenOf(band.a, false)} to ${whenOf(band.b, false)}`;
function nodeLabel(node) {
  const count = state.run.byNode[node.place].length;
  return `Node ${node.name}, pool ${node.pool}, ${node.team ? `team ${node.team}, ` : ""}${plural(count, "mark")}`;
}
function marksLabel(node, one) {
  const [first] = one.marks;
  const count = one.marks.length;
  return `${node.name}, ${whenOf(first.t)}: ${wordOf(one.best)}${count > 1 ? `, ${count} marks` : ""}. ${one.best.text}`;
}

/* Story: as many texts as find a place, in so many lines. */
const MOST_LINES = 5, LINE = 16;
const storyLines = () => Math.min(MOST_LINES, state.run.story.length);
const weightOfSaid = place => state.run.story[place].bad ? 1e9 : state.run.story[place].weight;
const storyHeight = () => storyLines() * LINE + 22;
const STOP = 19;
/* Bands that overlap stand below each other. */
function stopLevels() {
  const ends = [];
  return state.run.bands.map(band => {
    const x = xOf(band.a), width = measure(bandText(band)) + 20;
    let level = ends.findIndex(end => end <= x);
    if (level < 0) level = ends.length;
    ends[level] = Math.max(xOf(band.b), x + width) + 6;
    return level;
  });
}
const bandText = band => `${band.pool ? `${band.pool} ` : ""}${band.text}`;
const stopsHeight = () => (Math.max(...stopLevels()) + 1) * STOP + 8;
