/* Each kind of row as a picture. */
function button(row, item, x, y, ...inner) {
  const isActive = state.active && state.active.row === row.key && holds(item, state.active.item);
  const isOpen = state.open && state.open.row === row.key && holds(item, state.open.item);
  return svg("g", {
    class: `item${isOpen ? " open" : ""}`, role: "button", tabindex: isActive ? 0 : -1, "aria-label": item.label,
    "aria-expanded": item.type === "fold" ? String(rowAt.get(row.key).open) : null,
    "data-row": row.key, "data-item": item.key, transform: `translate(${x.toFixed(1)} ${y})`,
  }, ...inner);
}
/* Whether `key` names the item, or one of the marks that it stands for at this zoom. */
function holds(item, key) {
  if (item.key === key) return true;
  if (item.type === "marks") return item.marks.some(mark => `m${mark.place}` === key.split(".")[0]);
  if (item.type === "story") return item.all.some(place => `s${place}` === key);
  return item.type === "checks" && item.checks.some(check => `c${state.run.checks.indexOf(check)}` === key);
}
const label = (text, x, y, kind = "") => svg("text", {x, y, class: kind}, text);
const title = text => svg("title", null, text);

const DRAW = {
  story(row) {
    const items = itemsOf(row), base = row.height - 10, leaders = [], pins = [];
    const places = placeTexts(items.map(item => [item.x, measure(item.said.text), weightOfSaid(item.place)]), state.width - RIGHT);
    items.forEach((item, place) => {
      const {line, room} = places[place], text = line < 0 ? "" : fitted(item.said.text, room);
      const inner = [title(item.label)];
      if (text) {
        const y = line * LINE + 16;
        leaders.push(svg("path", {class: "leader", d: `M${item.x.toFixed(1)} ${y - 9}V${base - 5}`}));
        inner.push(svg("rect", {x: 0, y: y - base - 12, width: measure(text) + 8, height: 16, fill: "transparent"}),
          label(text, 4, y - base, `halo${item.said.bad ? " bad" : ""}`));
      }
      inner.push(svg("circle", {class: "ring", r: 8}), shape("pin", item.said.bad ? "fail" : "world"));
      pins.push(button(row, item, item.x, base, ...inner));
    });
    return [label("What happened", 0, 16, "soft"), ...leaders, ...pins];
  },
  checks(row) {
    return [label("What was expected", 0, 17, "soft"), ...itemsOf(row).map(item => button(row, item, item.x, 13, title(item.label),
      svg("circle", {class: "ring", r: 9}),
      item.ok ? shape("tick", "good") : shape("cross", "fail"),
      item.checks.length > 1 ? label(String(item.checks.length), 8, 4, "soft") : null))];
  },
  stops(row) {
    const levels = stopLevels();
    return [label("Stopped", 0, 17, "soft"), ...itemsOf(row).map(item => {
      const {band} = item, level = levels[state.run.bands.indexOf(band)];
      const end = xOf(Math.min(band.b, state.view[1])), width = Math.max(6, end - item.x);
      const text = fitted(bandText(band), Math.max(width - 12, state.width - RIGHT - item.x - width - 8));
      const inside = measure(bandText(band)) < width - 12;
      return button(row, item, item.x, level * STOP + 13, title(item.label),
        svg("rect", {class: "ring", x: -3, y: -10, width: width + 6, height: 20, rx: 3}),
        svg("rect", {x: 0, y: -7, width, height: 14, rx: 2, fill: `url(#p-${{breaker: "slant", pause: "dots", away: "cross"}[band.kind]}-${band.kind})`,
          stroke: `var(--${band.kind}-edge)`, "stroke-width": 1.2}),
        label(text, inside ? 6 : width + 6, 4, "halo"));
    })];
  },
  band(row) {
    const {group, isTeam} = row, isPool = Boolean(group.name) && !isTeam, run = state.run;
    const out = group.out || [], bottom = row.height - 6, top = 8;
    const hasBudget = group.budget !== undefined;
    /* Teams have no budget to be measured by: their bands are drawn to one scale. */
    const counted = isTeam ? run.teams.flatMap(team => team.out || []) : out;
    const most = Math.max(hasBudget ? group.budget : 0, ...counted.map(one => one.ours + (one.others || 0)), 1);
    const yOf = count => bottom - count / most * (bottom - top);
    const area = (of, from) => {
      let d = "";
      out.forEach((one, place) => {
        const a = Math.max(one.t, state.view[0]), b = Math.min(place + 1 < out.length ? out[place + 1].t : run.length, state.view[1]);
        if (b <= a || !of(one)) return;
        const x = xOf(a), width = Math.max(xOf(b) - x, 2), low = yOf(from(one)), high = yOf(from(one) + of(one));
        d += `M${x.toFixed(1)} ${low.toFixed(1)}V${high.toFixed(1)}h${width.toFixed(1)}V${low.toFixed(1)}Z`;
      });
      return d;
    };
    const parts = [];
    for (const band of run.bands) {
      if (isPool ? band.pool && band.pool !== group.name : band.pool) continue;
      if (band.b < state.view[0] || band.a > state.view[1]) continue;
      const x = xOf(Math.max(band.a, state.view[0])), width = Math.max(2, xOf(Math.min(band.b, state.view[1])) - x);
      parts.push(svg("rect", {x, y: 1, width, height: row.height - 2, fill: `var(--${band.kind})`}, title(bandLabel(band))));
    }
    const mine = area(one => one.ours, () => 0), others = area(one => one.others || 0, one => one.ours);
    const y = hasBudget ? yOf(group.budget) : 0;
    const limit = (hasBudget && svg("g", null, title(`Budget: at most ${group.budget} of ${group.size} out of service on purpose`),
      svg("path", {class: "budget", d: `M${NAMES} ${y.toFixed(1)}H${state.width - RIGHT}`}),
      label(`budget ${group.budget}`, state.width - RIGHT - measure(`budget ${group.budget}`) - 2, y + 12, "halo soft"))) || null;
    const worst = out.reduce((high, one) => Math.max(high, one.ours), 0);
    const words = isTeam
      ? [label(fitted(group.name, NAMES - 12), 0, 17, "strong"), label(fitted(`team of ${group.size.toLocaleString("en")}${worst ? `, at most ${worst} out` : ""}`, NAMES - 4), 0, 31, "soft")]
      : isPool
      ? [label(fitted(group.name, NAMES - 12), 0, 19, "strong"), label(fitted(`${group.size.toLocaleString("en")} × ${group.kind}`, NAMES - 12), 0, 34, "soft")]
      : [label("Out of service", 0, 18, "strong"), label(`of ${plural(group.size, "node")}`, 0, 33, "soft"), label(`at most ${worst} at once`, 0, 47, "soft")];
    return [svg("path", {class: "rowline", d: `M0 .5H${state.width}`}), ...parts,
      svg("path", {class: "rowline", d: `M${NAMES} ${bottom + .5}H${state.width - RIGHT}`}),
      others && svg("path", {class: "theirs", d: others}, title("cordoned by others")), mine && svg("path", {class: "ours", d: mine}, title("out of service for us")), limit, ...words];
  },
  lane(row) {
    const {node} = row, mid = LANE / 2, items = itemsOf(row), [name, ...marks] = items;
    const parts = [svg("path", {class: "rowline", d: `M${NAMES} ${mid}H${state.width - RIGHT}`})];
    for (const [t, count] of node.heard || []) {
      if (t < state.view[0] || t > state.view[1]) continue;
      parts.push(svg("rect", {class: "tick", x: xOf(t).toFixed(1), y: LANE - 3, width: 1.2, height: 2.5}, title(plural(count, "event") + " that needed nothing")));
    }
    const states = node.states || [];
    states.forEach((one, place) => {
      const until = place + 1 < states.length ? states[place + 1].a : state.run.length;
      if (one.s === "service" || until < state.view[0] || one.a > state.view[1]) return;
      const x = xOf(Math.max(one.a, state.view[0])), end = xOf(Math.min(until, state.view[1]));
      const drawn = bar(one.s, x, end - x, mid);
      if (drawn) parts.push(drawn, ...barLabel(one, x, end, mid, marks));
    });
    for (const clock of node.clocks || []) parts.push(...clockOn(clock));
    for (const item of marks) {
      const count = item.marks.length;
      parts.push(button(row, item, item.x, mid, title(item.label),
        svg("circle", {class: "ring", r: 9.5}), svg("g", {class: "halo-shape"}, SHAPES[KINDS[item.best.k][3]].map(([, d]) => svg("path", {d}))),
        glyphOf(item.best), count > 1 ? label(String(count), 8, -2, "halo soft count-of") : null));
    }
    const text = fitted(node.name, NAMES - 14);
    parts.push(button(row, name, 0, 0, title(node.name), svg("rect", {class: "ring", x: 1, y: 1.5, width: NAMES - 8, height: LANE - 3, rx: 3}),
      svg("rect", {width: NAMES - 6, height: LANE, fill: "transparent"}), label(text, 4, 15, "mono")));
    return parts;
  },
  fold(row) {
    const text = foldText(row);
    if (state.print) return [label(text, 4, 17, "soft")];
    const [item] = itemsOf(row);
    return [button(row, item, 0, 0, svg("rect", {class: "ring", x: 1, y: 2, width: NAMES - 8, height: 23, rx: 3}),
      svg("rect", {width: NAMES, height: row.height, fill: "transparent"}),
      svg("path", {d: row.open ? "M5 11h8l-4 5Z" : "M7 9v8l5-4Z", fill: "var(--muted)"}), label(text, 18, 17, "soft"))];
  },
};

/* A line for each text at [x, width, weight], the weightiest first and with the most room; then
   each gets all that is free up to the next text in its line. Who finds no place is a pin alone. */
function placeTexts(texts, end) {
  const gap = 12, lines = Array.from({length: storyLines()}, () => []);
  const places = texts.map(() => ({line: -1, room: 0}));
  const order = texts.map((_, place) => place).sort((a, b) => texts[b][2] - texts[a][2] || a - b);
  for (const place of order) {
    const [x, width, weight] = texts[place], need = Math.min(weight > 2 ? 190 : 118, width) + gap;
    if (x + need > end) continue;
    const line = lines.findLastIndex(one => one.every(other => other.x >= x + need || other.x + other.need <= x));
    if (line < 0) continue;
    lines[line].push({place, x, need});
    places[place].line = line;
  }
  for (const line of lines) {
    line.sort((a, b) => a.x - b.x);
    line.forEach(({place, x}, at) => { places[place].room = Math.min((line[at + 1] ? line[at + 1].x : end) - x - gap, 420); });
  }
  return places;
}

/* What a bar says, where there is room between the marks on it. */
function barLabel(one, x, end, mid, marks) {
  const thin = BARS[one.s].height < 12, named = MODEL.states[one.s];
  const words = thin ? [one.why || named] : one.why ? [`${named} · ${one.why}`, named, one.why] : [named];
  const on = marks.filter(item => item.x >= x - 8 && item.x <= end + 8).map(item => item.x);
  const edges = [x - 10, ...on, end + 10];
  for (let place = 0; place + 1 < edges.length; place++) {
    const many = marks.find(item => item.x === edges[place] && item.marks.length > 1);
    const from = Math.max(edges[place] + (many ? 22 : 12), x + 4), room = edges[place + 1] - 12 - from;
    const text = words.find(word => measure(word) <= room) || (room > 110 ? fitted(words[0], room) : "");
    if (!text) continue;
    const back = thin ? svg("rect", {x: from - 3, y: mid - 6, width: measure(text) + 6, height: 12, fill: "var(--bg)"}) : null;
    const on = label(text, from, mid + 4, thin ? "soft" : "");
    if (!thin) fill(on, {"paint-order": "stroke", stroke: `var(--${one.s})`, "stroke-width": 3, "stroke-linejoin": "round"});
    return [back, on];
  }
  return [];
}

/* A thin line at the foot of the lane with a mark where it runs out. */
function clockOn(clock) {
  if (clock.b < state.view[0] || clock.a > state.view[1]) return [];
  /* What is over before it can be seen says nothing beside the marks that it explains. */
  if ((clock.kind === "wait" || clock.kind === "quiet") && xOf(clock.b) - xOf(clock.a) < 9) return [];
  const a = xOf(Math.max(clock.a, state.view[0])), b = Math.max(xOf(Math.min(clock.b, state.view[1])), a + 3), y = LANE - 2.5;
  const isOver = clock.due !== undefined;
  const end = clock.b > state.view[1] ? "" : isOver ? `M${b} ${y - 3}v5` : `M${b} ${y + 2}V${y - 9}l6 2.5l-6 2.5`;
  const dash = {deadline: "1 3", window: null, wait: "3 2", quiet: "3 2", warning: "3 2", override: "1 2"}[clock.kind];
  return [svg("g", {class: "clock"}, title(clock.text),
    svg("path", {d: `M${a} ${y}H${b}`, "stroke-dasharray": dash, "stroke-width": clock.kind === "window" ? 2.5 : 1.3}),
    end && svg("path", {d: end, "stroke-width": 1.3, fill: isOver ? "none" : "var(--ink)"}))];
}
