/* The explorer's page: draws what Python has computed. Every name is set as text, never as markup. */
(async () => {
  "use strict";
  const given = document.getElementById("data");
  let text = given.textContent;
  if (given.type === "application/gzip") {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    text = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  }
  const GIVEN = JSON.parse(text);
  let D = GIVEN.bodies ? GIVEN.bodies[0] || null : GIVEN; // what is shown: of a program of loops, one body
  const { el, svg, themeButton } = common;
  const HIGH = 22;
  const LABELS = 700; // labels of edges that are drawn, at most
  const READABLE = 0.55; // the smallest scale at which names can be read

  // Elements ---------------------------------------------------------------------------------------------------------

  function math(element, latex) {
    katex.render(latex, element, {
      throwOnError: false, strict: false, trust: (context) => context.command === "\\htmlData", maxExpand: 500, maxSize: 20,
    });
    return element;
  }
  const many = (number, noun) => `${common.many(number)} ${noun}${number === 1 ? "" : "s"}`;
  const plural = (number, noun) => many(number, noun).replace("vertexs", "vertices").replace("entrys", "entries");

  // A plan and its state ---------------------------------------------------------------------------------------------

  /** Follows a plan from step to step; what is alive, and which faces there are, as Python found them. */
  class Player {
    constructor(plan) {
      this.plan = plan;
      this.at = 0;
      this.steps = plan.steps.length;
      this.alive = new Set(plan.alive);
      this.gone = new Set();
      this.faces = new Set();
      if (plan.faces) for (let k = 0; k < plan.faces.length; k += 2) this.faces.add(`${plan.faces[k]},${plan.faces[k + 1]}`);
    }
    /** Goes there, and returns what changed: values, faces, vertices. */
    go(to) {
      const values = new Set(), faces = new Set(), vertices = new Set();
      const toggle = (set, touched, key, there) => {
        if (there) set.add(key); else set.delete(key);
        touched.add(key);
      };
      const pairs = (list, there) => {
        for (let k = 0; k < list.length; k += 2) toggle(this.faces, faces, `${list[k]},${list[k + 1]}`, there);
      };
      const { steps, edges } = this.plan;
      for (let k = this.at; k < to; k++) {
        const [, , , removed, added, values_, vertices_] = steps[k];
        toggle(this.alive, values, edges + k, true);
        for (const v of values_) toggle(this.alive, values, v, false);
        for (const v of vertices_) toggle(this.gone, vertices, v, true);
        pairs(removed, false);
        pairs(added, true);
      }
      for (let k = this.at - 1; k >= to; k--) {
        const [, , , removed, added, values_, vertices_] = steps[k];
        pairs(added, false);
        pairs(removed, true);
        for (const v of values_) toggle(this.alive, values, v, true);
        for (const v of vertices_) toggle(this.gone, vertices, v, false);
        toggle(this.alive, values, edges + k, false);
      }
      this.at = to;
      return { values, faces, vertices };
    }
    cost(name, at) {
      return at ? this.plan[name][at - 1] : 0;
    }
    operations(at) {
      const [counted, numbers] = this.plan.ops;
      let low = 0, high = counted.length - 1;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (counted[middle] <= at) low = middle; else high = middle - 1;
      }
      return [numbers[low], counted[low] === at];
    }
    /** The values that some steps multiply and add: role by value, and the faces that they eliminate. */
    lit(from, to) {
      const roles = new Map(), over = new Set(), vertices = new Set();
      const { steps, edges, notes } = this.plan;
      for (let k = from; k < to && !notes; k++) {
        const [product, left, right, , , , , middle] = steps[k];
        if (product) {
          if (!roles.has(left)) roles.set(left, "left");
          if (!roles.has(right)) roles.set(right, "right");
          over.add(`${left},${right}`);
          vertices.add(middle);
        } else for (const v of [left, right]) if (!roles.has(v)) roles.set(v, "made");
        roles.set(edges + k, "made");
      }
      // terms of sums, and what is made and used up within the group, would hide the rest: they light up in expressions
      const terms = new Set([...roles.keys()].filter((v) => roles.get(v) === "made" && !this.alive.has(v)));
      return { roles, over, vertices, terms };
    }
  }

  /** The curve of a value: as it was placed, or straight from vertex to vertex. */
  function wayOf(plan, v) {
    if (plan.ways[v]) return plan.ways[v];
    const a = D.vertices[plan.ends[2 * v]], b = D.vertices[plan.ends[2 * v + 1]];
    if (a.x === null || b.x === null) return "";
    const y = a.y + HIGH / 2, z = b.y - HIGH / 2, w = (z - y) * 0.3;
    return `M${a.x} ${y}C${a.x} ${y + w} ${b.x} ${z - w} ${b.x} ${z}`;
  }

  /** The point of a path of curves at a part of its height: from the text, since to ask the element lays the page out. */
  function along(path) {
    const n = path.match(/-?[\d.]+/g).map(Number), curves = (n.length - 2) / 6;
    return (part) => {
      const k = Math.min(curves - 1, Math.floor(part * curves)), t = part * curves - k, u = 1 - t, at = 6 * k;
      const mix = (d) => u * u * u * n[at + d] + 3 * u * u * t * n[at + 2 + d] + 3 * u * t * t * n[at + 4 + d] + t * t * t * n[at + 6 + d];
      return { x: mix(0), y: mix(1) };
    };
  }

  // Pictures ---------------------------------------------------------------------------------------------------------

  let shapes = 0;

  /** A group in parts: a browser measures all that is in a group when one thing in it changes. */
  class Parts {
    constructor(attributes) {
      this.group = svg("g", attributes || {});
      this.room = 0;
    }
    add(...elements) {
      if (this.room-- <= 0) {
        this.part = svg("g", {});
        this.group.append(this.part);
        this.room = 40;
      }
      this.part.append(...elements);
    }
  }

  class Picture {
    constructor(title, hint) {
      this.small = el("small", { text: hint || "" });
      this.caption = el("span", { text: title });
      const button = (text, name, act) => el("button", { type: "button", class: "mini", text, title: name, "aria-label": `${name}: ${title}`, onclick: act });
      this.follower = el("button", { type: "button", class: "mini", text: "Follow", title: "Keep what a step changes in view", "aria-label": `Follow: ${title}`, "aria-pressed": "false", onclick: () => this.follow(!this.follows) });
      this.world = svg("g", {});
      this.root = svg("svg", { role: "group", "aria-label": title, tabindex: "0" }, Picture.tips(), this.world);
      this.card = el("div", { class: "card hidden" });
      this.figure = el("figure", { class: "panel" },
        el("figcaption", {}, this.caption, this.small, el("span", { class: "zoom" },
          button("−", "Zoom out", () => this.zoom(1 / 1.3)), button("+", "Zoom in", () => this.zoom(1.3)), button("Fit", "Fit", () => { this.follow(false); this.fit(); }), this.follower)),
        // in a box of its own: as a flexible item it would be measured anew, with all its text, in every step
        el("div", { class: "view" }, this.root), this.card);
      this.box = [0, 0, 100, 100];
      this.view = { x: 0, y: 0, k: 1 };
      this.pointers = new Map();
      this.root.addEventListener("wheel", (event) => {
        event.preventDefault();
        const at = this.root.getBoundingClientRect();
        this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), event.clientX - at.left, event.clientY - at.top);
      }, { passive: false });
      this.root.addEventListener("pointerdown", (event) => {
        this.pointers.set(event.pointerId, [event.clientX, event.clientY]);
        this.moved = false;
      });
      this.root.addEventListener("pointermove", (event) => this.drag(event));
      for (const name of ["pointerup", "pointercancel", "pointerleave"])
        this.root.addEventListener(name, (event) => { this.pointers.delete(event.pointerId); this.root.classList.remove("drag"); });
      this.root.addEventListener("pointerover", (event) => this.told(event.target));
      this.root.addEventListener("focusin", (event) => this.told(event.target));
      this.root.addEventListener("focusout", () => this.tell(null));
      this.root.addEventListener("keydown", (event) => this.keyed(event));
      this.size = [0, 0];
      this.seen = [[], []];
      // sizes are observed: to ask for them within a step would lay the whole page out
      new ResizeObserver(([entry]) => { this.size = [entry.contentRect.width, entry.contentRect.height]; if (!this.touched) this.fit(); else if (this.follows) this.see(...this.seen); }).observe(this.root);
    }
    static tips() {
      const first = shapes++ === 0;
      const tip = (name) => svg("marker", { id: name ? `tip-${name}` : "tip", viewBox: "0 0 8 8", refX: "7", refY: "4", markerWidth: "8", markerHeight: "8", markerUnits: "userSpaceOnUse", orient: "auto" },
        svg("path", { d: "M0 0.6L8 4L0 7.4z", class: `tip ${name}` }));
      return first ? svg("defs", {}, tip(""), tip("left"), tip("right"), tip("made")) : null;
    }
    drag(event) {
      const before = this.pointers.get(event.pointerId);
      if (!before) return;
      const others = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
      const now = [event.clientX, event.clientY];
      if (Math.hypot(now[0] - before[0], now[1] - before[1]) < 3 && !this.moved) return;
      if (!this.moved) { this.follow(false); this.root.setPointerCapture(event.pointerId); this.root.classList.add("drag"); }
      this.moved = this.touched = true;
      if (others.length) {
        const apart = (place) => Math.hypot(place[0] - others[0][0], place[1] - others[0][1]) || 1;
        const at = this.root.getBoundingClientRect();
        this.zoom(apart(now) / apart(before), (now[0] + others[0][0]) / 2 - at.left, (now[1] + others[0][1]) / 2 - at.top);
      } else {
        this.view.x += now[0] - before[0];
        this.view.y += now[1] - before[1];
        this.place();
      }
      this.pointers.set(event.pointerId, now);
    }
    place() {
      const { x, y, k } = this.view;
      this.world.setAttribute("transform", `translate(${x.toFixed(2)} ${y.toFixed(2)}) scale(${k.toFixed(4)})`);
      this.root.classList.toggle("far", k < 0.5);
      this.root.classList.toggle("farther", k < 0.22);
    }
    zoom(factor, x, y) {
      this.touched = true;
      const to = Math.min(4, Math.max(0.02, this.view.k * factor));
      const cx = x === undefined ? this.size[0] / 2 : x, cy = y === undefined ? this.size[1] / 2 : y;
      this.view.x = cx - (cx - this.view.x) * (to / this.view.k);
      this.view.y = cy - (cy - this.view.y) * (to / this.view.k);
      this.view.k = to;
      this.place();
    }
    fit() {
      const [x, y, w, h] = this.box, [W, H] = this.size;
      if (!W || !H) return;
      const k = Math.min(1.7, (W - 24) / Math.max(w, 1), (H - 24) / Math.max(h, 1));
      this.view = { k, x: (W - k * w) / 2 - k * x, y: (H - k * h) / 2 - k * y };
      this.touched = false;
      if (this.follows === undefined && k < 0.55) { this.follows = true; this.follower.setAttribute("aria-pressed", "true"); }
      this.place();
    }
    follow(on) {
      this.follows = on;
      this.follower.setAttribute("aria-pressed", String(on));
      if (on) this.see(...this.seen);
    }
    /** Brings places into view that a step changes; of those that are too far apart to be read, only the focus. */
    see(places, focus) {
      this.seen = [places, focus];
      const [W, H] = this.size;
      if (!this.follows || !W) return;
      if (!places.length) { this.fit(); return; }
      const around = (points) => {
        const xs = points.map((place) => place[0]), ys = points.map((place) => place[1]);
        const [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
        return [(x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0, Math.min((W - 130) / Math.max(x1 - x0, 1), (H - 110) / Math.max(y1 - y0, 1))];
      };
      let [x, y, w, h, most] = around(places);
      if (most < READABLE && focus.length) [x, y, w, h, most] = around(focus);
      const now = this.view, dx = Math.abs(now.k * x + now.x - W / 2), dy = Math.abs(now.k * y + now.y - H / 2);
      const fits = now.k >= READABLE && now.k <= 1.7;
      if (fits && dx + now.k * w / 2 < W / 2 - 40 && dy + now.k * h / 2 < H / 2 - 25) return; // all is in view
      // another scale would lay out all texts anew
      const k = fits && now.k <= most ? now.k : Math.max(READABLE, Math.min(1, most));
      this.at(x, y, k);
    }
    centre(x, y) { this.at(x, y, Math.max(this.view.k, 0.7)); }
    /** Centres a place at a scale; where the picture ends within the view, it ends at the view's edge. */
    at(x, y, k) {
      const within = (place, room, from, size) => {
        const shift = room / 2 - k * place, low = room - 12 - k * (from + size), high = 12 - k * from;
        return low > high ? (low + high) / 2 : Math.min(high, Math.max(low, shift));
      };
      const [left, top, w, h] = this.box, [W, H] = this.size;
      this.view = { k, x: within(x, W, left, w), y: within(y, H, top, h) };
      this.touched = true;
      this.place();
    }
    told(target) {
      const part = target.closest ? target.closest("[data-i]") : null;
      this.tell(part && this.root.contains(part) ? part : null);
    }
    tell(part) {
      this.card.replaceChildren();
      const told = part ? this.describe(part.dataset.k, Number(part.dataset.i)) : null;
      this.card.classList.toggle("hidden", !told);
      if (told) this.card.append(...told);
    }
    /** Arrow keys go from part to part; the picture is one stop of the Tab key. */
    keyed(event) {
      const turn = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") { this.root.focus(); return; }
      const part = event.target.closest("[data-i]");
      if (event.key === "Enter" && part) { this.pressed(part.dataset.k, Number(part.dataset.i)); return; }
      if (event.key === "Enter" && !part) { const first = this.parts()[0]; if (first) first.focus(); return; }
      if (!turn || !part) return;
      event.preventDefault();
      event.stopPropagation();
      const parts = this.parts(), next = parts[(parts.indexOf(part) + turn + parts.length) % parts.length];
      next.focus({ preventScroll: true });
    }
    parts() { return [...this.world.querySelectorAll("g[data-i]")].filter((part) => !part.classList.contains("hidden")); }
    pressed() {}
  }

  /** What is known of a value: the derivative that it is, and of an edge its label. */
  function aboutValue(plan, v) {
    const j = plan.ends[2 * v], i = plan.ends[2 * v + 1];
    const name = el("b", { text: plan.text[v] });
    if (v < plan.edges) {
      const [latex, derivative, value] = D.labels[v];
      const formula = el("span", {});
      math(formula, value && value !== latex ? `${latex} = ${derivative} = ${value}` : `${latex} = ${derivative}`);
      const source = D.vertices[j].s;
      return [formula, source ? el("code", { text: source }) : null].filter(Boolean);
    }
    const [product, left, right] = plan.steps[v - plan.edges];
    const made = `${plan.text[left]} ${product ? "·" : "+"} ${plan.text[right]}`;
    return [name, ` = ${made === plan.text[v] ? "" : `${made}, `}paths from `, el("b", { text: D.vertices[j].a }), " to ", el("b", { text: D.vertices[i].a }), ` · step ${v - plan.edges + 1}`];
  }

  /** Parts of a graph that are folded into edges: by vertex, the outermost part that hides it. */
  class Folds {
    constructor() {
      this.parts = new Set();
      this.hides = new Map();
      this.views = [];
    }
    toggle(part, on) {
      if (on) this.parts.add(part); else this.parts.delete(part);
      this.hides.clear();
      // outer parts come first
      for (const k of [...this.parts].sort((a, b) => a - b)) for (const v of D.blocks[k][3]) if (!this.hides.has(v)) this.hides.set(v, k);
      for (const view of this.views) view.folded();
    }
    /** The part that hides a value, or undefined. */
    of(plan, v) {
      const j = this.hides.get(plan.ends[2 * v]);
      return j === undefined ? this.hides.get(plan.ends[2 * v + 1]) : j;
    }
  }

  class GraphPicture extends Picture {
    constructor(title, hint, player, folds) {
      super(title, hint);
      this.player = player;
      this.folds = folds || new Folds();
      this.folds.views.push(this);
      this.substitutes = svg("g", {});
      this.edges = new Parts();
      this.labels = new Parts({ "aria-hidden": "true" });
      this.nodes = new Parts();
      this.world.append(this.edges.group, this.substitutes, this.nodes.group, this.labels.group);
      this.drawn = new Map();
      this.places = new Map();
      this.lit = { roles: new Map(), vertices: new Set(), terms: new Set() };
      this.vertices = D.vertices.map((vertex, v) => this.vertex(vertex, v));
      const reach = Math.max(30, ...D.vertices.map((vertex) => vertex.w)) / 2;
      this.box = [-reach - 6, -HIGH, D.size[0] + 2 * reach + 12, D.size[1] + 2 * HIGH];
      for (const v of player.alive) this.update(v);
      this.root.setAttribute("aria-label", `${title}: ${plural(D.vertices.length, "vertex")}, ${many(player.plan.edges, "edge")}. Enter goes to its vertices, arrow keys from one to the next.`);
    }
    vertex(vertex, v) {
      if (vertex.x === null) return null;
      const text = svg("text", { x: vertex.x, y: vertex.y + 4.5, "text-anchor": "middle" });
      if (vertex.o) text.append(svg("tspan", { class: "sign", text: vertex.o }), svg("tspan", { dx: 5, text: vertex.n }));
      else text.textContent = vertex.n;
      const kind = { r: "output", t: "input", "": "vertex" }[vertex.k];
      const group = svg("g", { class: `v ${vertex.k}`, "data-k": "v", "data-i": v, tabindex: "-1", role: "img", "aria-label": `${kind} ${vertex.a}${vertex.o ? `, ${vertex.o}` : ""}${vertex.s ? `, ${vertex.s}` : ""}` },
        svg("rect", { x: vertex.x - vertex.w / 2, y: vertex.y - HIGH / 2, width: vertex.w, height: HIGH, rx: 7 }), text);
      this.nodes.add(group);
      return group;
    }
    describe(kind, v) {
      if (kind === "e") return aboutValue(this.player.plan, v);
      const vertex = D.vertices[v];
      const head = el("span", {});
      if (vertex.f) math(head, vertex.f);
      else head.append(el("b", { text: vertex.a }), { r: " – output", t: " – input", "": "" }[vertex.k]);
      return [head, vertex.s ? el("code", { text: vertex.s }) : null].filter(Boolean);
    }
    /** Draws, changes or hides the edge of a value. */
    update(v) {
      const { plan, alive } = this.player, role = this.lit.terms.has(v) ? undefined : this.lit.roles.get(v), there = alive.has(v);
      let parts = this.drawn.get(v);
      if (!parts) {
        const way = there || role ? wayOf(plan, v) : "";
        if (!way) return;
        const edge = svg("path", { d: way, class: "e" }), hit = svg("path", { d: way, class: "hit", "data-k": "e", "data-i": v });
        this.edges.add(edge, hit);
        let label = null;
        if (this.drawn.size < LABELS) {
          const { x, y } = this.labelled(v);
          label = svg("text", { class: "lab", x, y: y + 4, text: plan.text[v] });
          this.labels.add(label);
        }
        parts = [edge, hit, label];
        this.drawn.set(v, parts);
      }
      const [edge, hit, label] = parts, show = (there || Boolean(role)) && this.folds.of(plan, v) === undefined;
      edge.setAttribute("class", `e${plan.kinds[v] === 1 ? " unit" : ""}${role ? ` ${role}` : ""}${show ? (there ? "" : " over") : " hidden"}`);
      hit.setAttribute("class", `hit${show ? (there ? "" : " over") : " hidden"}`);
      if (label) label.setAttribute("class", `lab${role ? ` ${role}` : ""}${show ? "" : " hidden"}`);
    }
    /** Hides what is folded, and draws an edge for each part. */
    folded() {
      this.vertices.forEach((part, v) => part && part.classList.toggle("hidden", this.folds.hides.has(v)));
      for (const v of this.drawn.keys()) this.update(v);
      const shown = new Set(this.folds.hides.values());
      this.substitutes.replaceChildren(...[...shown].flatMap((k) => {
        const [kind, source, sink, , edges] = D.blocks[k], a = D.vertices[source], b = D.vertices[sink];
        const y = a.y + HIGH / 2, z = b.y - HIGH / 2;
        return [svg("path", { class: "ew", d: `M${a.x} ${y}C${a.x} ${y + (z - y) * 0.3} ${b.x} ${z - (z - y) * 0.3} ${b.x} ${z}` }),
          svg("text", { class: "lab", x: (a.x + b.x) / 2, y: (y + z) / 2 + 4, text: `${kind}, ${many(edges, "edge")}` })];
      }));
    }
    /** The place along an edge for its label that is nearest to the middle, and away from other labels and vertices. */
    labelled(v) {
      const half = 4 + 3.4 * this.player.plan.text[v].length, curve = along(wayOf(this.player.plan, v));
      let best = null, least = Infinity;
      // on the edge, or beside it where edges cross
      const beside = [0.5, 0.35, 0.65].flatMap((part) => [[part, half + 5], [part, -half - 5]]);
      for (const [part, aside] of [...[0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74].map((each) => [each, 0]), ...beside]) {
        const { x: middle, y } = curve(part), x = middle + aside;
        const near = (a, b, w) => Math.abs(x - a) < half + w && Math.abs(y - b) < 13;
        let cost = Math.abs(part - 0.5) + (aside ? 1 : 0);
        for (const [u, [a, b, w]] of this.places) if (this.player.alive.has(u) && near(a, b, w)) cost += 10;
        for (const vertex of D.vertices.length < 200 ? D.vertices : []) if (vertex.x !== null && near(vertex.x, vertex.y, vertex.w / 2)) cost += 5;
        if (cost < least) [least, best] = [cost, { x, y }];
      }
      this.places.set(v, [best.x, best.y, half]);
      return best;
    }
    change(changed, lit) {
      const touched = new Set([...changed.values, ...this.lit.roles.keys(), ...lit.roles.keys()]);
      const vertices = new Set([...changed.vertices, ...this.lit.vertices, ...lit.vertices]);
      this.lit = lit;
      for (const v of touched) this.update(v);
      for (const v of vertices) {
        const part = this.vertices[v];
        if (!part) continue;
        part.classList.toggle("gone", this.player.gone.has(v));
        part.classList.toggle("at", lit.vertices.has(v));
      }
      const { ends } = this.player.plan, near = new Set();
      for (const v of lit.roles.keys()) if (!lit.terms.has(v)) { near.add(ends[2 * v]); near.add(ends[2 * v + 1]); }
      const places = (list) => [...list].map((v) => D.vertices[v]).filter((vertex) => vertex && vertex.x !== null).map((vertex) => [vertex.x, vertex.y]);
      this.see(places(near), places(lit.vertices));
    }
    find(matches) {
      let first = null;
      D.vertices.forEach((vertex, v) => {
        const hit = matches && this.vertices[v] && matches(`${vertex.a} ${vertex.o} ${vertex.s}`);
        if (this.vertices[v]) this.vertices[v].classList.toggle("found", Boolean(hit));
        if (hit && first === null) first = v;
      });
      return D.vertices.map((_, v) => v).filter((v) => this.vertices[v] && this.vertices[v].classList.contains("found"));
    }
  }

  class LinePicture extends Picture {
    constructor(title, hint, player, folds) {
      super(title, hint);
      this.player = player;
      this.folds = folds;
      folds.views.push(this);
      this.substitutes = svg("g", {});
      const { plan } = player;
      this.values = plan.ends.length / 2;
      this.paths = new Parts();
      this.nodes = new Parts();
      this.world.append(this.paths.group, this.substitutes, this.nodes.group);
      this.drawn = new Map();
      this.faces = new Map();
      this.lit = { roles: new Map(), over: new Set(), terms: new Set() };
      D.roots.forEach((v, k) => this.node(this.values + k, D.vertices[v].n, "r"));
      D.terminals.forEach((v, k) => this.node(this.values + D.roots.length + k, D.vertices[v].n, "t"));
      for (const v of player.alive) this.update(v);
      for (const face of player.faces) this.face(face);
      let [x0, y0, x1, y1] = [Infinity, Infinity, -Infinity, -Infinity];
      plan.line.forEach(([x, y, w], v) => {
        if (v < plan.edges && !player.alive.has(v)) return;
        [x0, y0, x1, y1] = [Math.min(x0, x - w / 2), Math.min(y0, y), Math.max(x1, x + w / 2), Math.max(y1, y)];
      });
      if (x0 <= x1) this.box = [x0 - 6, y0 - HIGH, x1 - x0 + 12, y1 - y0 + 2 * HIGH];
      this.root.setAttribute("aria-label", `${title}: ${many(player.alive.size, "edge")} as vertices, ${many(player.faces.size, "face")}`);
    }
    node(v, name, kind) {
      const [x, y, w] = this.player.plan.line[v];
      const group = svg("g", { class: `n ${kind}`, "data-k": "n", "data-i": v, tabindex: "-1", role: "img", "aria-label": kind ? `${kind === "r" ? "root" : "terminal"} ${name}` : `edge ${name}` },
        svg("rect", { x: x - w / 2, y: y - HIGH / 2, width: w, height: HIGH, rx: kind ? 7 : 2 }), svg("text", { x, y: y + 4.5, text: name }));
      this.nodes.add(group);
      this.drawn.set(v, group);
      return group;
    }
    update(v) {
      const role = this.lit.terms.has(v) ? undefined : this.lit.roles.get(v), there = this.player.alive.has(v);
      const part = this.drawn.get(v) || (there || role ? this.node(v, this.player.plan.text[v], "") : null);
      const folded = this.folds.of(this.player.plan, v) !== undefined;
      if (part) part.setAttribute("class", `n${role ? ` ${role}` : ""}${folded ? " hidden" : there ? "" : role ? " over" : " hidden"}`);
    }
    face(key) {
      const over = this.lit.over.has(key), there = this.player.faces.has(key);
      let path = this.faces.get(key);
      if (!path) {
        if (!there && !over) return;
        const [i, j] = key.split(",").map(Number), { line } = this.player.plan;
        const [x, y] = line[i], [x1, y1] = line[j];
        const down = y1 - y >= HIGH + 4;
        const top = down ? y + HIGH / 2 : y, end = down ? y1 - HIGH / 2 : y1, middle = (top + end) / 2;
        path = svg("path", { class: "f", d: `M${x} ${top}C${x} ${middle} ${x1} ${middle} ${x1} ${end}` });
        this.paths.add(path);
        this.faces.set(key, path);
      }
      const folded = this.folds.parts.size && key.split(",").some((v) => v < this.values && this.folds.of(this.player.plan, Number(v)) !== undefined);
      path.setAttribute("class", `f${folded ? " hidden" : over && !there ? " over" : there ? "" : " hidden"}`);
    }
    /** Hides what is folded; a part becomes one vertex, in the middle of its own. */
    folded() {
      const { plan, alive, faces } = this.player, places = new Map();
      for (const v of this.drawn.keys()) if (v < this.values) this.update(v);
      for (const key of this.faces.keys()) this.face(key);
      const owner = (v) => (v < this.values ? this.folds.of(plan, v) : undefined);
      for (const v of alive) {
        const k = owner(v);
        if (k === undefined) continue;
        if (!places.has(k)) places.set(k, []);
        places.get(k).push(plan.line[v]);
      }
      const mean = new Map([...places].map(([k, own]) => [k, [0, 1].map((side) => own.reduce((sum, place) => sum + place[side], 0) / own.length)]));
      const drawn = new Set(), parts = [];
      for (const key of places.size ? faces : []) {
        const [i, j] = key.split(",").map(Number), a = owner(i), b = owner(j);
        if ((a === undefined && b === undefined) || a === b || !drawn.add(`${a ?? `v${i}`},${b ?? `v${j}`}`)) continue;
        const [x, y] = a === undefined ? plan.line[i] : mean.get(a), [x1, y1] = b === undefined ? plan.line[j] : mean.get(b), middle = (y + y1) / 2;
        parts.push(svg("path", { class: "f", d: `M${x} ${y + HIGH / 2}C${x} ${middle} ${x1} ${middle} ${x1} ${y1 - HIGH / 2}` }));
      }
      for (const [k, [x, y]] of mean) {
        const name = `${D.blocks[k][0].split(" ").pop()} ${D.vertices[D.blocks[k][1]].n} → ${D.vertices[D.blocks[k][2]].n}`, w = 16 + 7 * name.length;
        parts.push(svg("g", { class: "n folded" }, svg("rect", { x: x - w / 2, y: y - HIGH / 2, width: w, height: HIGH, rx: 2 }), svg("text", { x, y: y + 4.5, text: name })));
      }
      this.substitutes.replaceChildren(...parts);
    }
    describe(kind, v) {
      if (v >= this.values) return [el("b", { text: D.vertices[[...D.roots, ...D.terminals][v - this.values]].a })];
      return aboutValue(this.player.plan, v);
    }
    change(changed, lit) {
      const values = new Set([...changed.values, ...this.lit.roles.keys(), ...lit.roles.keys()]);
      const faces = new Set([...changed.faces, ...this.lit.over, ...lit.over]);
      this.lit = lit;
      for (const v of values) this.update(v);
      for (const key of faces) this.face(key);
      if (this.folds.parts.size) this.folded();
      const places = (role) => [...lit.roles.keys()].filter((v) => !lit.terms.has(v) && (!role || lit.roles.get(v) === role)).map((v) => this.player.plan.line[v]);
      this.see(places(), places("left"));
    }
  }

  // Expressions ------------------------------------------------------------------------------------------------------

  class Lines {
    constructor(player) {
      this.player = player;
      this.marks = new Map();
      this.lit = { roles: new Map() };
      this.items = player.plan.lines.map((line, k) => el("li", { "data-line": k }));
      this.list = el("ol", { class: "lines", "aria-label": "Expressions of the plan" }, ...this.items);
      const none = el("p", { class: "note", text: "The plan is too long for its expressions to be set; acc.expressions(plan) has them." });
      this.element = el("div", { class: "tab", tabindex: "0", role: "tabpanel", "aria-label": "Expressions" }, this.items.length || !player.plan.steps.length ? this.list : none);
      this.of = new Map();
      player.plan.lines.forEach(([value, latex], k) => {
        for (const match of latex.matchAll(/\\htmlData\{v=(\d+)\}/g)) {
          const v = Number(match[1]);
          if (!this.of.has(v)) this.of.set(v, []);
          this.of.get(v).push(k);
        }
      });
      this.due = [];
      this.watch = new IntersectionObserver((entries) => {
        for (const entry of entries) if (entry.isIntersecting) this.due.push(entry.target);
        this.renderDue(this.marks.size ? 8 : Infinity);
      }, { root: this.element, rootMargin: "200px" });
      this.items.forEach((item) => this.watch.observe(item));
    }
    /** Renders lines that came into view, for some milliseconds, and the rest later: all at once would delay a step. */
    renderDue(most) {
      const start = performance.now(), seen = [];
      this.due.sort((a, b) => b.classList.contains("here") - a.classList.contains("here"));
      while (this.due.length && performance.now() - start < most) {
        seen.push(this.due.shift());
        this.render(Number(seen.at(-1).dataset.line));
      }
      // each that scrolls costs time in every step
      const wide = seen.filter((item) => item.scrollWidth > item.clientWidth);
      for (const item of wide) item.classList.add("wide");
      clearTimeout(this.timer);
      if (this.due.length) this.timer = setTimeout(() => this.renderDue(8), 16);
    }
    render(k) {
      const item = this.items[k];
      if (item.firstChild) return;
      this.watch.unobserve(item);
      math(item, this.player.plan.lines[k][1]);
      for (const mark of item.querySelectorAll(".katex-html [data-v]")) {
        const v = Number(mark.dataset.v);
        if (!this.marks.has(v)) this.marks.set(v, []);
        this.marks.get(v).push(mark);
        this.mark(v, mark);
      }
    }
    mark(v, mark) {
      const { plan, at } = this.player, role = this.lit.roles.get(v);
      mark.setAttribute("class", `enclosing${role ? ` ${role}` : v >= plan.edges + at ? " wait" : ""}`);
    }
    change(changed, lit) {
      const touched = new Set([...changed.values, ...this.lit.roles.keys(), ...lit.roles.keys()]);
      const before = this.here || [];
      this.lit = lit;
      const here = new Set();
      for (const [v, role] of lit.roles) if (role === "made") for (const k of this.of.get(v) || []) here.add(k);
      for (const k of before) this.items[k].classList.toggle("here", here.has(k));
      this.here = [...here];
      for (const k of here) this.items[k].classList.add("here");
      const first = this.here.length ? this.items[Math.min(...this.here)] : null;
      if (first && !this.waits) this.waits = requestAnimationFrame(() => {
        this.waits = 0;
        const at = this.here.length ? this.items[Math.min(...this.here)].offsetTop : 0; // the tab is its offset parent
        if (at < this.element.scrollTop || at + 34 > this.element.scrollTop + this.element.clientHeight) this.element.scrollTop = at - 40;
      });
      for (const v of touched) for (const mark of this.marks.get(v) || []) this.mark(v, mark);
    }
  }

  /** A picture of boxes and arrows that nothing moves in: of loops, and of what waits for what. */
  class Plain extends Picture {
    constructor(title, size, hint, widest = 80) {
      super(title, hint);
      this.box = [-widest / 2, -HIGH, size[0] + widest, size[1] + 2 * HIGH];
      this.told_ = new Map();
      this.follows = false;
      this.follower.remove();
    }
    node(i, text, x, y, w, kind, about) {
      const group = svg("g", { class: `v ${kind}`, "data-k": "p", "data-i": i, tabindex: "-1", role: "img", "aria-label": about ? `${text}, ${about}` : text },
        svg("rect", { x: x - w / 2, y: y - HIGH / 2, width: w, height: HIGH, rx: 7 }), svg("text", { x, y: y + 4.5, "text-anchor": "middle", text }));
      this.told_.set(i, [el("b", { text }), about ? el("code", { text: about }) : null].filter(Boolean));
      this.world.append(group);
      return group;
    }
    describe(kind, i) { return this.told_.get(i); }
  }

  // The page ---------------------------------------------------------------------------------------------------------

  let keys = null;
  document.addEventListener("keydown", (event) => { if (keys) keys(event); });

  /** The graph of a program of loops; a press on a body shows its plan. */
  function loops() {
    const { outer } = GIVEN, picture = new Plain("Loops", outer.size, "Press a loop", Math.max(...outer.nodes.map((node) => node[3])));
    for (const d of outer.ways) picture.world.append(svg("path", { class: "e", d }));
    outer.nodes.forEach(([text, x, y, w, body, source], i) => {
      const kind = i < outer.arguments ? "t" : i >= outer.nodes.length - outer.results ? "r" : "";
      const group = picture.node(i, text, x, y, w, kind, source);
      if (body < 0) return;
      group.classList.add("folded");
      group.dataset.body = body;
      group.addEventListener("click", () => { if (!picture.moved) show(body); });
    });
    const show = (body) => { D = GIVEN.bodies[body]; build(picture); };
    picture.pressed = (kind, i) => { if (outer.nodes[i][4] >= 0) show(outer.nodes[i][4]); };
    picture.root.setAttribute("aria-label", "Loops: outputs on top, inputs at the bottom. Enter goes to them, and shows the inside of a loop.");
    return picture;
  }

  function build(outside) {
  const main = document.getElementById("explorer");
  const plan = D.plans[0];
  const player = new Player(plan);
  const KINDS = ["face", "edge", "vertex", "block", "page"];
  const asked = new URLSearchParams(location.hash.slice(1)); // which groups and tab an address asks for
  const state = { kind: plan.groups[asked.get("by")] ? asked.get("by") : plan.groups.vertex && plan.steps.length > 60 ? "vertex" : "face", playing: 0, rival: 0 };
  const ends = () => plan.groups[state.kind];

  const folds = new Folds();
  const graph = new GraphPicture(GIVEN.outer ? "Inside the loop" : D.overview ? "Overview" : "Differentiation graph", "", player, folds);
  const line = plan.line ? new LinePicture("Line graph", "", player, folds) : null;
  const lines = new Lines(player);
  if (D.overview) graph.follows = false;
  const views = [graph, line, lines].filter(Boolean);
  const rivals = D.plans.slice(1).map((each) => new Player(each));

  const counters = ["fma", "multiplications", "operations"].map((name) => {
    const number = el("b", { text: "0" }), bar = el("i", {}), other = el("i", {}), rival = el("small", { class: "of" });
    const total = plan.costs[name];
    const first = name === "operations" ? player.operations(0)[0] : 0; // of values and partials, which the program computes, too
    const title = {
      fma: "Products so far. A sum that follows a product is part of it: a fused multiply-add",
      multiplications: "Products so far whose factors are neither 1 nor −1",
      operations: `Operations of the program so far${first ? `: ${first.toLocaleString("en")} compute the function and its partial derivatives, before the first step` : ""}`,
    }[name];
    const item = el("li", { title }, el("span", { class: "what", text: name === "fma" ? "fma (products)" : name }, first && el("span", { class: "first", text: ` (${first.toLocaleString("en")} for values and partials)` })), el("br", {}), number,
      el("span", { class: "of", text: ` / ${total.toLocaleString("en")}` }), rival, el("div", { class: "bar" }, bar), el("div", { class: "bar other hidden" }, other));
    return { name, number, bar, other, rival, item, total };
  });

  const say = el("span", { class: "say" }), says = el("span", { class: "says" });
  const live = el("div", { class: "sr", "aria-live": "polite" });
  const legend = el("span", { class: "legend" }, el("span", { class: "l", text: "left factor" }), " · ", el("span", { class: "rr", text: "right factor" }), " → ", el("span", { class: "m", text: "result" }), " · dashed: used up");
  if (plan.notes) legend.replaceChildren();
  const slider = el("input", { type: "range", min: 0, max: ends().length, value: 0, step: 1, "aria-label": "Step", oninput: () => goTo(Number(slider.value)) });
  const output = el("output", {});
  const ICONS = { first: "M4 3v10M13 3L6.5 8L13 13z", back: "M11 3.4L6.4 8L11 12.6L9.8 13.8L4 8L9.8 2.2z", play: "M4 2.5L13 8L4 13.5z", pause: "M4 3h3v10h-3zM9.5 3h3v10h-3z", next: "M5 3.4L9.6 8L5 12.6L6.2 13.8L12 8L6.2 2.2z", last: "M12 3v10M3 3L9.5 8L3 13z" };
  const icon = (name) => svg("svg", { viewBox: "0 0 16 16", class: "icon", "aria-hidden": "true" }, svg("path", { d: ICONS[name] }));
  const play = el("button", { type: "button", title: "Play (space)", "aria-label": "Play", onclick: () => toggle() }, icon("play"));
  const key = (name, title, act) => el("button", { type: "button", title, "aria-label": title, onclick: act }, icon(name));
  const kinds = el("select", { "aria-label": "Step by", onchange: () => choose(kinds.value) }, ...Object.keys(plan.groups).map((kind) => el("option", { value: kind, text: kind, selected: kind === state.kind })));
  const race = el("select", { "aria-label": "Run against", onchange: () => against(Number(race.value)) }, el("option", { value: 0, text: "nothing" }),
    ...D.plans.slice(1).map((each, k) => el("option", { value: k + 1, text: `${each.method} (${each.costs[plan.objective].toLocaleString("en")})` })));

  /** Position among the groups, by the steps that were taken. */
  const position = () => { let k = 0; while (k < ends().length && ends()[k] <= player.at) k++; return k; };

  function goTo(number) {
    const list = ends(), k = Math.max(0, Math.min(list.length, number));
    show(k ? list[k - 1] : 0, k ? (k > 1 ? list[k - 2] : 0) : 0);
    slider.value = k;
    output.textContent = `${k.toLocaleString("en")} of ${plural(list.length, plan.notes ? "part" : state.kind)}`;
  }

  function show(to, from) {
    const changed = player.go(to), lit = player.lit(from, to);
    for (const view of views) view.change(changed, lit);
    for (const counter of counters) count(counter, to);
    for (const update of updates) update(to, lit);
    describe(from, to, lit);
    if (state.rival) follow();
  }

  function count(counter, to) {
    let [value, exact] = [0, true];
    if (counter.name === "operations") [value, exact] = player.operations(to);
    else value = player.cost(counter.name === "fma" ? "fma" : "mul", to);
    counter.number.textContent = plan.notes && !exact ? "–" : `${exact ? "" : "≥ "}${value.toLocaleString("en")}`;
    const most = state.rival ? Math.max(counter.total, D.plans[state.rival].costs[counter.name]) : counter.total;
    counter.bar.style.transform = `scaleX(${most ? value / most : 1})`;
  }

  function statement(k) {
    const [product, left, right] = plan.steps[k], v = plan.edges + k;
    // numbers alone would not say which edge is meant
    const place = /^[−\d.]+$/.test(plan.text[v]) && el("span", { class: "place", text: `${D.vertices[plan.ends[2 * v]].n} → ${D.vertices[plan.ends[2 * v + 1]].n}: ` });
    return el("span", {}, place, el("span", { class: "m", text: plan.text[plan.edges + k] }), " = ", el("span", { class: product ? "l" : "m", text: plan.text[left] }), product ? " · " : " + ", el("span", { class: product ? "rr" : "m", text: plan.text[right] }));
  }

  function describe(from, to, lit) {
    let products = 0;
    for (let k = from; k < to; k++) products += plan.steps[k][0];
    const sums = to - from - products;
    let text = "Press → to begin. Edges carry derivatives; a step multiplies two that follow each other.";
    if (!plan.steps.length) text = plan.edges ? "Nothing has to be multiplied: the edges are the Jacobian." : "There are no derivatives here.";
    if (to) {
      const at = [...lit.vertices].slice(0, 4).map((v) => D.vertices[v].a).join(", ") + (lit.vertices.size > 4 ? ", …" : "");
      const gone = [...lit.vertices].every((v) => player.gone.has(v));
      text = { face: products ? `Face at ${at}` : "Sum", edge: products ? `Edge at ${at}` : "Sum", vertex: products ? `Vertex ${at}${gone ? " is eliminated" : ""}` : "Sum", block: `Block around ${at}`, page: `Page at ${at}` }[state.kind];
      text += `: ${many(products, "product")}${sums ? `, ${many(sums, "sum")}` : ""}`;
    }
    if (plan.notes) text = to ? plan.notes.slice(from, to).join("; ") : `${D.overview}. Press → to begin.`;
    if (to === plan.steps.length && to) text += ". Done: only the Jacobian is left";
    say.textContent = text;
    const shown = [];
    for (let k = from; k < to && shown.length < 4 && !plan.notes; k++) shown.push(statement(k));
    says.replaceChildren(...shown, ...(to - from > 4 && !plan.notes ? [el("span", { text: "…" })] : []));
    live.textContent = to ? `${text} fma ${player.cost("fma", to)}` : text;
  }

  function choose(kind) {
    state.kind = kind;
    kinds.value = kind;
    slider.max = ends().length;
    goTo(position());
  }

  function toggle(on) {
    const start = on === undefined ? !state.playing : on;
    clearInterval(state.playing);
    state.playing = 0;
    if (start) {
      if (position() >= ends().length) goTo(0);
      state.playing = setInterval(() => { if (position() >= ends().length) toggle(false); else goTo(position() + 1); }, ends().length > 60 ? 350 : 900);
    }
    play.replaceChildren(icon(start ? "pause" : "play"));
    play.setAttribute("aria-label", start ? "Pause" : "Play");
  }

  // Two plans against each other -------------------------------------------------------------------------------------

  const right = el("div", { class: "panels" });
  const rivalPictures = new Map();

  function against(number) {
    state.rival = number;
    const shown = number ? rivalPicture(number) : line;
    right.replaceChildren(...[outside && outside.figure, graph.figure, shown ? shown.figure : noLine()].filter(Boolean));
    for (const counter of counters) {
      counter.other.parentElement.classList.toggle("hidden", !number);
      counter.rival.textContent = "";
      count(counter, player.at);
    }
    if (number) follow();
    if (shown) shown.fit();
    graph.fit();
  }

  function rivalPicture(number) {
    if (!rivalPictures.has(number)) rivalPictures.set(number, new GraphPicture(`The same by ${D.plans[number].method}`, "", rivals[number - 1]));
    return rivalPictures.get(number);
  }

  /** The other plan goes as far as it gets with as many products. */
  function follow() {
    const other = rivals[state.rival - 1], spent = player.cost("fma", player.at), { fma, groups } = other.plan;
    let to = 0;
    for (const end of groups.face) if (fma[end - 1] <= spent) to = end; else break;
    if (player.at === plan.steps.length && spent >= (fma[fma.length - 1] || 0)) to = other.steps;
    const before = groups.face.filter((end) => end < to).pop() || 0;
    rivalPicture(state.rival).change(other.go(to), other.lit(before, to));
    for (const counter of counters) {
      const total = other.plan.costs[counter.name];
      const value = counter.name === "operations" ? other.operations(to)[0] : other.cost(counter.name === "fma" ? "fma" : "mul", to);
      counter.other.style.transform = `scaleX(${value / (Math.max(counter.total, total) || 1)})`;
      counter.rival.textContent = `${other.plan.method} ${value.toLocaleString("en")} / ${total.toLocaleString("en")}`;
    }
  }

  function noLine() {
    return el("figure", { class: "panel" }, el("figcaption", { text: "Line graph" }), el("p", { class: "note", text: D.overview ? "Not drawn: it has as many vertices as the graph has edges. A box on the left is a group of vertices of one operation on neighbouring levels." : "The line graph is not drawn: it has too many faces, or the plan is of a symmetric matrix, where one value stands for two edges that mirror each other." }));
  }

  // Tabs -------------------------------------------------------------------------------------------------------------

  const updates = [];
  const tabs = [["Expressions", () => lines.element]];

  function jacobian() {
    const { roots, terminals } = D, cells = new Map();
    if (roots.length * terminals.length > 3000) return null;
    for (const [row, column, value] of plan.entries) cells.set(`${row},${column}`, value);
    const marks = [];
    const rows = roots.map((root, row) => el("tr", {}, el("th", { scope: "row", text: D.vertices[root].a, title: D.vertices[root].a }), ...terminals.map((terminal, column) => {
      const value = cells.get(`${row},${column}`), cell = el("td", { text: value === undefined ? "" : plan.text[value] });
      if (value !== undefined) marks.push([value, cell]);
      return cell;
    })));
    updates.push((to, lit) => {
      for (const [value, cell] of marks)
        cell.className = lit.roles.get(value) === "made" ? "done lit" : lit.roles.get(value) || (value < plan.edges + to ? "done" : "wait");
    });
    return el("table", { class: "matrix" }, el("caption", { text: `${many(roots.length, "output")} by ${many(terminals.length, "input")}; ${plural(plan.entries.length, "entry")} other than zero` }),
      el("thead", {}, el("tr", {}, el("td", {}), ...terminals.map((v) => el("th", { scope: "col", text: D.vertices[v].a, title: D.vertices[v].a })))), el("tbody", {}, ...rows));
  }

  function methods() {
    const head = el("tr", {}, ...["method", "fma", "multiplications", "operations"].map((text) => el("th", { scope: "col", text })));
    const rows = D.plans.map((each, k) => el("tr", {}, el("td", {}, k ? each.method : el("b", { text: `${each.method} (this plan)` })), ...["fma", "multiplications", "operations"].map((name) => el("td", { text: each.costs[name].toLocaleString("en") }))));
    const bound = plan.optimal ? "This plan is proven optimal." : plan.bound === null ? "" : `No elimination needs fewer than ${plan.bound.toLocaleString("en")} ${plan.objective}.`;
    return el("div", {}, el("table", {}, el("thead", {}, head), el("tbody", {}, ...rows)), el("p", { text: bound }));
  }

  function labels() {
    const list = el("ol", { class: "lines" });
    let made = 0;
    const more = () => { for (const end = Math.min(D.labels.length, made + 150); made < end; made++) { const [latex, derivative, value] = D.labels[made]; list.append(math(el("li", {}), `${latex} = ${derivative}${value && value !== latex ? ` = ${value}` : ""}`)); } };
    more();
    const rest = el("button", { type: "button", text: "More", onclick: () => { more(); if (made >= D.labels.length) rest.remove(); } });
    return el("div", {}, list, made < D.labels.length ? rest : null);
  }

  /** Chains and blocks, to be folded into edges. */
  function blocks() {
    const rows = D.blocks.map(([kind, source, sink, inner, edges], k) => {
      const box = el("input", { type: "checkbox", id: `fold-${k}`, onchange: () => folds.toggle(k, box.checked) });
      return el("li", {}, box, " ", el("label", { for: `fold-${k}` }, `${kind} from `, el("b", { text: D.vertices[source].a }), " to ", el("b", { text: D.vertices[sink].a }), `: ${many(edges, "edge")}, ${plural(inner.length, "vertex")} inside`));
    });
    const all = (on) => el("button", { type: "button", class: "mini", text: on ? "Fold all" : "Unfold all", onclick: () => {
      D.blocks.forEach((_, k) => { document.getElementById(`fold-${k}`).checked = on; if (on) folds.parts.add(k); else folds.parts.delete(k); });
      folds.toggle(-1, false);
    } });
    return el("div", {}, el("p", {}, "Parts that paths enter and leave by two vertices only; folded, each is an edge. ", all(true), " ", all(false)), el("ul", { class: "lines" }, ...rows));
  }

  /** Matrices between neighbouring levels, whose product the Jacobian is. */
  function local() {
    const of = new Map();
    const matrices = D.levels.map(({ rows, columns, cells }, level) => {
      const at = new Map(cells.map(([row, column, e]) => [`${row},${column}`, e]));
      const name = ([kind, k]) => (kind === "v" ? D.vertices[k].a : `${plan.text[k]} goes on`);
      const body = rows.map((row, r) => el("tr", {}, el("th", { scope: "row", text: name(row), title: name(row) }), ...columns.map((_, c) => {
        const e = at.get(`${r},${c}`), cell = el("td", { text: e === undefined ? "" : e < 0 ? "1" : plan.text[e] });
        if (e >= 0) of.set(e, cell);
        return cell;
      })));
      return el("table", { class: "matrix" }, el("caption", { text: `from level ${level} to ${level + 1}` }), el("thead", {}, el("tr", {}, el("td", {}), ...columns.map((column) => el("th", { scope: "col", text: name(column), title: name(column) })))), el("tbody", {}, ...body));
    });
    updates.push((to, lit) => { for (const [e, cell] of of) cell.className = lit.roles.get(e) || (player.alive.has(e) ? "" : "wait"); });
    return el("div", {}, el("p", { text: "The Jacobian is the product of these; a 1 hands on what belongs to a later level." }), ...matrices);
  }

  /** What waits for what: a face is eliminated, or terms are merged, after those that arrows lead to. */
  function order() {
    const { nodes, arrows, cycle, size } = D.order, picture = new Plain("What waits for what", size);
    for (const [a, b, around] of arrows) {
      const [, x, y] = nodes[a], [, x1, y1] = nodes[b], up = cycle || y1 < y, far = Math.hypot(x1 - x, y1 - y) || 1;
      const [u, w] = [(x1 - x) / far, (y1 - y) / far], bend = cycle ? 26 : 0; // in a ring, outside of the straight line
      const d = up ? `M${x} ${y}Q${(x + x1) / 2 + w * bend} ${(y + y1) / 2 - u * bend} ${x1 - u * 40 + w * bend * 0.4} ${y1 - w * 17 - u * bend * 0.4}` : `M${x} ${y + HIGH / 2}C${x} ${(y + y1) / 2} ${x1} ${(y + y1) / 2} ${x1} ${y1 - HIGH / 2}`;
      picture.world.append(svg("path", { class: `e${around ? " made" : ""}`, d }));
    }
    nodes.forEach(([text, x, y], i) => picture.node(i, text, x, y, Math.max(28, 7.4 * text.length + 14), "", ""));
    picture.root.setAttribute("aria-label", `What waits for what: ${many(nodes.length, "step")}, ${many(arrows.length, "arrow")}${cycle ? ", in a cycle" : ", no cycle"}`);
    return el("div", { class: "order" }, el("p", { text: cycle ? "These wait for each other in a circle, so that no elimination of faces does this:" : "A face is eliminated, and terms are merged, after those that its arrows lead to. There is no circle, so that there is an order." }), cycle ? el("pre", { text: cycle }) : null, picture.figure);
  }

  if (D.overview) tabs.length = 0;
  else tabs.push(["Jacobian", jacobian], ["Labels", labels]);
  if (D.blocks && D.blocks.length) tabs.push(["Blocks", blocks]);
  if (D.levels && D.levels.length) tabs.push(["Levels", local]);
  if (D.order && D.order.nodes.length) tabs.push(["Order", order]);
  tabs.push(["Methods", methods]);

  const holder = el("div", { class: "below" });
  const bar = el("div", { class: "tabs", role: "tablist", "aria-label": "Below" });
  const panes = new Map();
  function open(name, make) {
    if (!panes.has(name)) {
      const made = make();
      const pane = made && made.classList.contains("tab") ? made : el("div", { class: "tab", tabindex: "0", role: "tabpanel", "aria-label": name }, made || el("p", { class: "note", text: "Too large to be shown." }));
      panes.set(name, pane);
      holder.append(pane);
      const list = ends(), k = position();
      for (const update of updates) update(player.at, player.lit(k > 1 ? list[k - 2] : 0, k ? list[k - 1] : 0));
    }
    for (const [other, pane] of panes) pane.classList.toggle("hidden", other !== name);
    for (const button of bar.children) button.setAttribute("aria-selected", String(button.textContent === name));
  }
  const larger = el("button", { type: "button", class: "larger", text: "Larger", "aria-pressed": "false", onclick: () => larger.setAttribute("aria-pressed", String(main.classList.toggle("tall"))) });
  for (const [name, make] of tabs) bar.append(el("button", { type: "button", role: "tab", text: name, onclick: () => open(name, make) }));
  holder.append(el("div", { class: "top" }, bar, larger));

  window.onbeforeprint = () => lines.items.forEach((_, k) => lines.render(k));

  // Search, theme, help ----------------------------------------------------------------------------------------------

  let hits = [], hit = -1;
  const search = el("input", { type: "search", placeholder: "Search  /", "aria-label": "Search vertices", oninput: () => {
    const words = search.value.trim().toLowerCase();
    hits = graph.find(words ? (text) => text.toLowerCase().includes(words) : null);
    hit = -1;
    told.textContent = words ? `${hits.length} found` : "";
  }, onkeydown: (event) => {
    if (event.key !== "Enter" || !hits.length) return;
    hit = (hit + 1) % hits.length;
    graph.centre(D.vertices[hits[hit]].x, D.vertices[hits[hit]].y);
  } });
  const told = el("span", { class: "sr", "aria-live": "polite" });
  const keyHelp = [["← →", "one step back, one on"], ["Home End", "first, last"], ["space", "play, pause"], ["1 … 5", "step by face, edge, vertex, block, page"], ["/", "search"], ["f", "fit both pictures"], ["t", "light or dark"]];
  const help = el("dialog", { "aria-labelledby": "help-title" }, el("h2", { id: "help-title", text: "How to read this" }),
    el("p", { text: "Left, the function: outputs on top, inputs at the bottom, an edge for each local derivative. Right, its line graph: each edge is a vertex, each pair of edges that follow each other a face. A step multiplies two factors; what it uses up is dashed, what it makes is new. At the end there is one edge for each entry of the Jacobian." }),
    el("dl", {}, ...keyHelp.flatMap(([keys, text]) => [el("dt", {}, ...keys.split(" ").flatMap((k) => (k === "…" ? [" … "] : [el("kbd", { text: k }), " "]))), el("dd", { text })])),
    el("button", { type: "button", text: "Close", onclick: () => help.close() }));
  const helper = el("button", { type: "button", text: "?", title: "Help (?)", "aria-label": "Help", onclick: () => help.showModal() });

  keys = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    const field = event.target.closest("input[type=search], select, textarea");
    if (field) { if (event.key === "Escape") field.blur(); return; }
    const act = {
      ArrowRight: () => goTo(position() + 1), ArrowLeft: () => goTo(position() - (ends()[position() - 1] < player.at ? 0 : 1)), Home: () => goTo(0), End: () => goTo(ends().length),
      " ": () => toggle(), "/": () => search.focus(), f: () => { graph.fit(); if (line) line.fit(); }, "?": () => help.showModal(),
    }[event.key] || (/^[1-5]$/.test(event.key) && plan.groups[KINDS[event.key - 1]] ? () => choose(KINDS[event.key - 1]) : null);
    if (!act || (event.key === " " && event.target.closest("button"))) return;
    event.preventDefault();
    if (event.key.startsWith("Arrow") || event.key === "Home" || event.key === "End") toggle(false);
    act();
  };

  // within another page: a way out of it
  const own = window.parent !== window && location.protocol !== "about:" ? el("a", { class: "own", href: location.href, target: "_blank", text: "↗", title: "Open as a page of its own", "aria-label": "Open as a page of its own" }) : null;

  // All together -----------------------------------------------------------------------------------------------------

  const sub = `Plan by ${plan.method}, for ${plan.objective} · ${D.overview || `${plural(D.vertices.length, "vertex")}, ${many(plan.edges, "edge")}`}${plan.optimal ? " · proven optimal" : ""}`;
  main.classList.toggle("outside", Boolean(outside));
  main.replaceChildren(...[
    el("header", { class: "head" }, el("div", {}, el("h1", { text: GIVEN.title }), el("p", { text: sub })), el("ul", { class: "counters" }, ...counters.map((counter) => counter.item)),
      el("div", { class: "tools" }, search, told, themeButton(), helper, own)),
    right,
    el("div", { class: "now" }, say, says, legend),
    holder,
    el("div", { class: "transport" }, el("span", { class: "keys" }, key("first", "First (Home)", () => goTo(0)), key("back", "Back (←)", () => goTo(position() - 1)), play, key("next", "On (→)", () => goTo(position() + 1)), key("last", "Last (End)", () => goTo(ends().length))),
      slider, output, plan.notes ? null : el("label", { title: "What a step is" }, "by ", kinds), D.plans.length > 1 ? el("label", { title: "Another method, beside this plan at the same number of products" }, "against ", race) : null),
    live, help].filter(Boolean));
  if (outside) for (const part of outside.world.querySelectorAll("[data-body]")) part.classList.toggle("at", GIVEN.bodies[part.dataset.body] === D);
  against(0);
  open(...(tabs.find(([name]) => name === asked.get("open")) || tabs[0]));
  goTo(0);
  // for tests: where the page is, and what it shows
  window.explorer = { follow: (on) => [graph, line].forEach((each) => each && each.follow(on)), player, plan, data: D, goTo, choose, against, position, state, ends };
  }

  if (D) build(GIVEN.outer ? loops() : null);
  else {
    const picture = loops();
    document.getElementById("explorer").replaceChildren(el("h1", { text: GIVEN.title }), picture.figure, el("p", { class: "transport", text: "No loop has derivatives of its own." }));
  }
})();
