/* The page of a report: draws what Python has computed. Every name is set as text, never as markup. */
(() => {
  "use strict";
  const D = JSON.parse(document.getElementById("data").textContent);
  const { el, svg, many, percent, themeButton } = common;
  const units = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
  function time(seconds) {
    const [unit, name] = units.find(([each]) => seconds >= 0.9995 * each) || units[3];
    return `${(seconds / unit).toPrecision(3).replace(/\.?0+$/, (zeros) => (zeros.includes(".") ? "" : zeros))} ${name}`;
  }
  function rate(value) {
    const [unit, name] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([each]) => value >= each) || [1, ""];
    return `${+(value / unit).toPrecision(3)} ${name}`;
  }

  function section(title, words, ...parts) {
    return el("section", {}, el("div", { class: "title" }, el("h2", { text: title })), words && el("p", { text: words }), ...parts);
  }
  /** A table; the first column holds names, columns in `texts` hold text, all others numbers. */
  function table(headings, rows, { texts = [], chosen = -1, codes = [], wrap = false } = {}) {
    const kind = (k) => (texts.includes(k) || !k ? "text" : null);
    return el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": headings.filter(Boolean).join(", ") },
      el("table", { class: wrap ? "wrap" : null }, el("thead", {}, el("tr", {}, ...headings.map((text, k) => el("th", { text, scope: "col", class: kind(k) })))),
        el("tbody", {}, ...rows.map((row, r) => el("tr", { class: r === chosen ? "chosen" : null },
          ...row.map((text, k) => el(k ? "td" : "th", { class: kind(k), scope: k ? null : "row", text: codes.includes(k) ? "" : text },
            codes.includes(k) && el("code", { text }))))))));
  }
  const folded = (title, ...parts) => el("details", {}, el("summary", { text: title }), ...parts);

  // Flame graph ------------------------------------------------------------------------------------------------------

  function flames() {
    const total = D.flames[0].of.v;
    const place = el("div", { class: "flame" }), saying = el("div", { class: "saying", "aria-live": "polite" });
    const rows = el("div");
    let shown = D.flames[0], focus = [];
    const say = (node) => {
      saying.replaceChildren(el("b", { text: node.n }), ` ${many(node.v)} operations, ${percent(node.v, total)} of the program `, node.s ? el("code", { text: node.s }) : "");
    };
    function draw() {
      place.replaceChildren();
      const at = focus.length ? focus[focus.length - 1] : shown.of;
      let deepest = 0;
      const bar = (node, depth, left, share, action) => {
        deepest = Math.max(deepest, depth);
        const known = node.d === 2 && ["value", "derivatives"].includes(node.n) ? node.n : `d${node.d}`;
        const button = el("button", { type: "button", class: known, title: `${node.n}: ${many(node.v)} operations, ${percent(node.v, total)}\n${node.s}`,
          onclick: action, onmouseenter: () => say(node), onfocus: () => say(node) },
        ...(share * Math.min(innerWidth - 50, 1310) < 42 ? [] : [node.n, node.s ? "  " : "", node.s && el("code", { text: node.s })]));
        button.setAttribute("aria-label", `${node.n}${node.s ? ` ${node.s}` : ""}, ${many(node.v)} operations`);
        Object.assign(button.style, { left: `${100 * left}%`, width: `${100 * share}%`, top: `${28 * depth}px`, padding: share < 0.02 ? "0" : null });
        place.append(button);
      };
      const above = [shown.of, ...focus].slice(0, -1);
      if (focus.length) above.forEach((node, depth) => bar(node, depth, 0, 1, () => { focus = focus.slice(0, depth); draw(); }));
      (function below(node, depth, left, share) {
        bar(node, depth, left, share, () => { focus = path(node); draw(); });
        let x = left;
        for (const child of node.c) {
          const part = share * child.v / node.v;
          if (part > 0.001) below(child, depth + 1, x, part);
          x += part;
        }
      })(at, focus.length, 0, 1);
      place.style.height = `${28 * (deepest + 1)}px`;
      say(at);
    }
    function path(node) {
      const find = (from) => {
        if (from === node) return [];
        for (const child of from.c) { const rest = find(child); if (rest) return [child, ...rest]; }
        return null;
      };
      return find(shown.of) || [];
    }
    function choose(flame) {
      shown = flame; focus = [];
      buttons.forEach((button, k) => button.setAttribute("aria-pressed", D.flames[k] === flame));
      const first = flame.name === "by line" ? "line" : "output";
      const list = [...flame.of.c].sort((a, b) => b.v - a.v);
      const of = (node, name) => (node.c.find((child) => child.n === name) || { v: 0 }).v;
      const lined = first === "line" && list.some((node) => node.c.some((child) => child.n === "derivatives"));
      rows.replaceChildren(folded("As a table", table(
        lined ? [first, "source", "operations", "share", "value", "derivatives"] : [first, "operations", "share"],
        list.map((node) => (lined ? [node.n, node.s, many(node.v), percent(node.v, total), many(of(node, "value")), many(of(node, "derivatives"))] : [node.n, many(node.v), percent(node.v, total)])),
        lined ? { texts: [1], codes: [1] } : {})));
      draw();
    }
    const buttons = D.flames.map((flame) => el("button", { type: "button", text: flame.name[0].toUpperCase() + flame.name.slice(1), onclick: () => choose(flame) }));
    const whole = section("Where the operations are", "Each bar is as wide as its operations. Press one to see it alone, and the one above to go back.", place, saying, rows);
    whole.className = "wide";
    if (buttons.length > 1) whole.querySelector(".title").append(el("div", { class: "choices" }, ...buttons));
    choose(D.flames[0]);
    return whole;
  }

  // Bars -------------------------------------------------------------------------------------------------------------

  function bars(rows, most, bound) {
    const box = el("div", { class: "bars" });
    for (const { name, value, text, chosen } of rows) {
      const bar = el("i", { class: chosen ? "chosen" : null });
      bar.style.width = `${100 * value / Math.max(most, 1e-300)}%`;
      const track = el("div", { class: "track" }, bar);
      if (bound !== undefined && bound !== null) {
        const mark = el("span", { class: "bound" });
        mark.style.left = `calc(${100 * bound / most}% - 1px)`;
        track.append(mark);
      }
      box.append(el("div", { class: "name", text: name }), track, el("div", { class: "number", text }));
    }
    return box;
  }

  function methods() {
    const M = D.methods, column = { fma: 1, multiplications: 2, operations: 3 }[M.objective];
    const cost = (row) => row[column];
    const most = Math.max(...M.rows.map(cost), 1);
    const gap = (row) => (M.bound === null ? "–" : cost(row) <= M.bound ? "optimal" : M.bound ? `+${percent(cost(row) - M.bound, M.bound)}` : "–");
    const picture = bars(M.rows.map((row) => ({ name: row[0], value: cost(row), text: many(cost(row)), chosen: row[0] === M.chosen })), most, M.bound);
    const whole = M.bodies ? `Bodies of loops, all instances, in ${M.objective} before rewriting. Products between loops come on top, for every method. ${M.because[0].toUpperCase()}${M.because.slice(1)}` : `In ${M.objective}, before rewriting. Chosen: ${M.because}`;
    const own = M.bodies && folded("Loop by loop", table(["loop", "instances", "method", `${M.objective} each`, "lower bound"], M.bodies.map(([name, count, method, cost, gap]) => [name, many(count), method, many(cost), gap]), { texts: [2, 4] }));
    return section("What each method costs", whole, picture,
      M.bound !== null && el("p", { class: "key" }, el("i"), `lower bound: no order needs fewer than ${many(M.bound)} ${M.objective}`),
      M.uncounted.length > 0 && el("p", { class: "key", text: `Not counted, since too large: ${M.uncounted.join(", ")}.` }),
      folded("As a table", table(["method", "fma", "multiplications", "operations", "above the bound", "found in"],
        M.rows.map((row) => [row[0], many(row[1]), many(row[2]), many(row[3]), gap(row), time(row[4])]), { chosen: M.rows.findIndex((row) => row[0] === M.chosen) })), own);
  }

  function rewriting() {
    const first = D.stages[0][1];
    let before = first;
    const rows = D.stages.map(([name, value], k) => {
      const won = k ? before - value : 0;
      before = value;
      return { name, value, text: `${many(value)}${k ? won > 0 ? ` · −${percent(won, first)}` : won < 0 ? ` · +${percent(-won, first)}` : " · ±0" : ""}`, chosen: k === D.stages.length - 1 };
    });
    const I = D.identities;
    return section("What rewriting won", "Operations that each stage has left, from the plan to the program.", bars(rows, Math.max(...rows.map((row) => row.value), 1)),
      I && el("p", { class: "key", text: I.words.join("; ") }),
      I && I.rows.length > 0 && folded(`${I.rows.length} identities`, table(["plan", "program", "where", "times", "proved"],
        I.rows.map(([given, now, where, times, proved]) => [given, now, where.join(", "), many(times), proved ? "yes" : "tested"]), { texts: [1, 2, 4], codes: [0, 1, 2] })));
  }

  function preparation() {
    const total = D.seconds.reduce((sum, [, seconds]) => sum + seconds, 0);
    return section("How long preparing took", `${time(total)} in all, by stage. Later calls with arguments of these shapes skip it.`,
      bars(D.seconds.map(([name, seconds]) => ({ name: D.cached.includes(name) ? `${name}, from the cache` : name, value: seconds, text: `${time(seconds)} · ${percent(seconds, total)}` })), Math.max(...D.seconds.map(([, seconds]) => seconds), 1e-12)));
  }

  // Pattern ----------------------------------------------------------------------------------------------------------

  function pattern() {
    const P = D.pattern, [down, across] = P.group;
    const high = Math.ceil(P.size[0] / down), wide = Math.ceil(P.size[1] / across);
    const left = P.tops.length > 1 ? 64 : 4, top = 24;
    const side = Math.max(2, Math.min(36, 520 / Math.max(wide, 1), 420 / Math.max(high, 1)));
    const width = wide * side, height = high * side;
    const picture = svg("svg", { class: "pattern", viewBox: `0 0 ${left + width + 8} ${top + height + 8}`, width: left + width + 8, role: "img", "aria-label": `${P.size[0]} by ${P.size[1]} matrix, ${P.cells.length / 4} cells with nonzeros` });
    picture.append(svg("rect", { class: "ground", x: left, y: top, width, height }));
    const paths = ["", "", "", "", ""], gap = side > 6 ? 1 : 0;
    const at = new Map();
    // up to four costs have a shade each; more are divided into four ranges
    const costs = [...new Set(P.cells.filter((_, k) => k % 4 === 3))].sort((a, b) => a - b);
    const ranges = costs.length < 5 ? costs.map((cost) => [cost, cost]) : [0, 1, 2, 3].map((k) => [costs[0] + Math.ceil(k * (costs.at(-1) - costs[0]) / 4), costs[0] + Math.ceil((k + 1) * (costs.at(-1) - costs[0]) / 4) - (k < 3)]);
    const shades = ranges.length === 1 ? [3] : ranges.length === 2 ? [1, 3] : [1, 2, 3, 4];
    const shade = (cost) => (P.counted ? shades[ranges.findIndex(([, to]) => cost <= to)] : 0);
    for (let k = 0; k < P.cells.length; k += 4) {
      const [r, c, times, cost] = P.cells.slice(k, k + 4);
      at.set(r * 1000 + c, [times, cost]);
      paths[shade(cost)] += `M${(left + c * side + gap / 2).toFixed(2)} ${(top + r * side + gap / 2).toFixed(2)}h${side - gap}v${side - gap}h${gap - side}z`;
    }
    paths.forEach((d, k) => d && picture.append(svg("path", { d, class: `s${k}` })));
    const name = (list, k, step) => { let found = list[0]; for (const each of list) if (each[1] <= k * step) found = each; return `${found[0]}[${k * step - found[1]}${step > 1 ? " …" : ""}]`; };
    const fit = (text, room) => (text.length * 7 > room ? `${text.slice(0, Math.max(1, Math.floor(room / 7) - 1))}…` : text);
    const ends = (list, size) => list.map(([text, start], k) => [text, start, k + 1 < list.length ? list[k + 1][1] : size]);
    for (const [text, start, end] of ends(P.lefts, P.size[1])) {
      if (start) picture.append(svg("path", { class: "cut", d: `M${left + start / across * side} ${top}v${height}` }));
      picture.append(svg("text", { x: left + start / across * side, y: 16, text: fit(text, Math.max((end - start) / across * side, P.lefts.length === 1 ? 200 : 14)) }));
    }
    for (const [text, start, end] of P.tops.length > 1 ? ends(P.tops, P.size[0]) : []) {
      if (start) picture.append(svg("path", { class: "cut", d: `M${left} ${top + start / down * side}h${width}` }));
      picture.append(svg("text", { x: left - 6, y: top + (start + end) / 2 / down * side + 4, "text-anchor": "end", text: fit(text.replace(/.*, result /, ""), left) }));
    }
    const saying = el("div", { class: "saying" });
    const rest = `${many(P.size[0])} × ${many(P.size[1])}${down * across > 1 ? `, a cell for ${down} × ${across} entries` : ""}`;
    saying.textContent = rest;
    picture.addEventListener("mousemove", (event) => {
      const box = picture.getBoundingClientRect(), scale = (left + width + 8) / box.width;
      const c = Math.floor(((event.clientX - box.left) * scale - left) / side), r = Math.floor(((event.clientY - box.top) * scale - top) / side);
      const found = at.get(r * 1000 + c);
      if (r < 0 || c < 0 || r >= high || c >= wide) { saying.textContent = rest; return; }
      const entry = `∂ ${name(P.tops, r, down)} / ∂ ${name(P.lefts, c, across)}`;
      saying.replaceChildren(el("b", { text: entry }), found ? ` ${down * across > 1 ? `${many(found[0])} nonzeros, ` : ""}${P.counted ? `needs ${many(found[1])} operations` : "structural nonzero"}` : " structural zero");
    });
    const key = P.counted && el("p", { class: "key" }, ...ranges.map(([from, to], k) => el("span", {}, el("i", { class: `swatch s${shades[k]}` }), from === to ? many(to) : `${many(from)}–${many(to)}`)), "operations");
    const counted = P.blocks.every((block) => block[4] !== null);
    const rows = P.blocks.map(([text, r, c, nonzeros, needs, own]) => [text, `${many(r)}×${many(c)}`, many(nonzeros), ...(counted ? [many(needs), many(own)] : [])]);
    return section(counted ? "Pattern, and the cost of its blocks" : "Pattern", `Structural nonzeros${P.counted ? ", shaded by the operations that each needs. Shared operations count for all that need them" : ""}.`, picture, saying, key,
      table(["block", "size", "nonzeros", ...(counted ? ["operations", "of its own"] : [])], rows));
  }

  // Speed ------------------------------------------------------------------------------------------------------------

  /** Axes with powers of ten; returns the picture and the functions from values to places. */
  function axes(xs, ys, words, unitX, unitY) {
    const W = Math.max(300, Math.min(560, innerWidth - 48)), H = 300, left = 74, right = 26, top = 14, bottom = 46, log = Math.log10;
    const range = (values) => [Math.floor(log(Math.min(...values)) + 0.001), Math.ceil(log(Math.max(...values)) - 0.001)];
    const [x0, x1] = range(xs), [y0, y1] = range(ys);
    const x = (value) => left + (log(value) - x0) / Math.max(x1 - x0, 1) * (W - left - right);
    const y = (value) => H - bottom - (log(value) - y0) / Math.max(y1 - y0, 1) * (H - top - bottom);
    const picture = svg("svg", { class: "picture", viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": words });
    for (let k = x0; k <= x1; k += 1) picture.append(svg("path", { class: "axis", d: `M${x(10 ** k)} ${top}V${H - bottom}` }), svg("text", { x: x(10 ** k), y: H - bottom + 17, "text-anchor": "middle", text: unitX(10 ** k) }));
    for (let k = y0; k <= y1; k += 1) picture.append(svg("path", { class: "axis", d: `M${left} ${y(10 ** k)}H${W - right}` }), svg("text", { x: left - 7, y: y(10 ** k) + 4, "text-anchor": "end", text: unitY(10 ** k) }));
    picture.append(svg("text", { x: (left + W - right) / 2, y: H - 8, "text-anchor": "middle", text: words }));
    return { picture, x, y, x0, x1, y0, y1, left, right: W - right, top };
  }
  const line = (points) => `M${points.map(([a, b]) => `${a.toFixed(1)} ${b.toFixed(1)}`).join("L")}`;
  const dot = (x, y, kind, title) => svg("circle", { class: kind, cx: x, cy: y, r: 5 }, svg("title", { text: title }));

  function roofline() {
    const M = D.measured, best = Math.max(...M.rates), k = M.intensity;
    const xs = [k / 8, k * 8, M.peak / M.bandwidth[1]];
    const A = axes(xs, [...M.rates, M.peak], "operations per byte of arguments and results", (value) => +value.toPrecision(3), (value) => `${rate(value)}op/s`);
    const low = 10 ** A.x0, high = 10 ** A.x1;
    M.bandwidth.forEach((bytes, far) => {
      const knee = M.peak / bytes, floor = 10 ** A.y0, from = Math.max(low, floor / bytes);
      const points = [[from, from * bytes], ...(knee < high && knee > from ? [[knee, M.peak]] : []), [high, Math.min(M.peak, high * bytes)]];
      A.picture.append(svg("path", { class: far ? "roof far" : "roof", d: line(points.map(([a, b]) => [A.x(a), A.y(b)])) }));
    });
    M.rates.forEach((value, each) => A.picture.append(dot(A.x(k), A.y(value), "dot", `${many(M.points[each])} points: ${rate(value)}operations per second`)));
    const fastest = M.rates.indexOf(best);
    A.picture.append(svg("text", { class: "halo", x: A.x(k) + 9, y: A.y(best) - 4, text: M.points[fastest] > 1 ? `${many(M.points[fastest])} points` : "1 point" }));
    const limit = Math.min(M.peak, k * M.bandwidth[0]);
    A.picture.append(svg("text", { class: "name", x: A.right - 4, y: A.y(M.peak) - 7, "text-anchor": "end", text: `arithmetic: ${rate(M.peak)}op/s` }));
    return section("Speed against the machine's limits", `At best ${rate(best)}op/s, ${percent(best, limit)} of what arithmetic and a cache allow at this intensity.`, A.picture,
      el("p", { class: "key", text: `Dots: batches by size. Solid: copies in a cache, ${rate(M.bandwidth[0])}B/s; dashed: in memory, ${rate(M.bandwidth[1])}B/s. A sine counts as one operation, as a product does.` }),
      el("p", { class: "key", text: M.words }));
  }

  function sizes() {
    const M = D.measured;
    const A = axes(M.points, [...M.seconds, M.call], "points of a batch", many, time);
    A.picture.append(svg("path", { class: "line", d: line(M.points.map((count, k) => [A.x(count), A.y(M.seconds[k])])) }));
    M.points.forEach((count, k) => A.picture.append(dot(A.x(count), A.y(M.seconds[k]), "dot", `${many(count)} points: ${time(M.seconds[k])} each`)));
    A.picture.append(dot(A.x(1), A.y(M.call), "call", `a call: ${time(M.call)}`));
    return section("Time of a point against the size of a batch", `A call at one point takes ${time(M.call)} (orange), a point of the fastest batch ${time(Math.min(...M.seconds))}.`, A.picture,
      folded("As a table", table(["points", "time of a point", "operations per second"], M.points.map((count, k) => [many(count), time(M.seconds[k]), `${rate(M.rates[k])}`]))));
  }

  // The page ---------------------------------------------------------------------------------------------------------

  const flame = D.flames.length > 0 && D.flames[0].of.v > 0 && flames();
  const grid = el("div", { class: "grid" }, D.methods && methods(), D.stages && rewriting(), D.pattern && pattern(), D.seconds.length > 0 && preparation(),
    D.measured && roofline(), D.measured && sizes(),
    D.cases.length > 0 && section("Cases", "The function decides on values; each case has a program.", table(["case", "operations", "calls", "points"], D.cases.map(([words, ...numbers]) => [words.join("; "), ...numbers.map(many)]), { wrap: true })),
    section("Facts", D.measured ? "" : "Speed is measured when the report is made with arguments: jac.report(x).show().", el("dl", { class: "facts" }, ...D.facts.flatMap(([name, words]) => [el("dt", { text: name }), el("dd", { text: words })]))));
  document.getElementById("report").replaceChildren(
    el("header", { class: "head" }, el("h1", { text: D.title }), themeButton()),
    el("ul", { class: "numbers" }, ...D.numbers.map(([number, noun, words]) => el("li", {}, el("b", { text: number }), ` ${noun}`, words && el("small", { text: words })))), ...(flame ? [flame] : []), grid);
})();
