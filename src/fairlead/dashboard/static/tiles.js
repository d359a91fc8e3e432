// A tile for each node. Thousands of them: each is made once, and drawn again only when its node looks different.

import { holds } from "./cluster.js";
import { amount, count, percent } from "./format.js";

const FEW = 40; // so many tiles have room for figures
const MANY = 150; // more are small

export class Tiles {
  #selected = null;
  #reachable = null;
  #root;
  #tiles = new Map();
  #onSelect;

  constructor(root, onSelect) {
    this.#root = root;
    this.#onSelect = onSelect;
    root.addEventListener("click", (event) => {
      const tile = event.target.closest(".tile");
      if (tile) onSelect(tile.dataset.name);
    });
    root.addEventListener("keydown", (event) => this.#keyed(event));
  }

  /** Draw these nodes; `scene` says how: cluster, dimension, colours, filter. */
  draw(names, scene) {
    const fresh = [];
    for (const name of names) {
      const node = scene.cluster.nodes.get(name);
      let tile = this.#tiles.get(name);
      if (!node) {
        tile?.element.remove();
        this.#tiles.delete(name);
        continue;
      }
      if (!tile) {
        tile = made(name);
        this.#tiles.set(name, tile);
        fresh.push(tile);
      }
      draw(tile, node, scene);
    }
    if (fresh.length) this.#place(fresh);
    this.#root.classList.toggle("few", this.#tiles.size <= FEW);
    this.#root.classList.toggle("many", this.#tiles.size > MANY);
    if (!this.#reachable?.isConnected || this.#reachable.hidden) this.#reach(this.#visible()[0]);
  }

  select(name) {
    this.#tiles.get(this.#selected)?.element.setAttribute("aria-pressed", "false");
    this.#selected = name;
    const tile = this.#tiles.get(name)?.element;
    tile?.setAttribute("aria-pressed", "true");
    if (tile) this.#reach(tile);
  }

  get isEmpty() {
    return !this.#visible().length;
  }

  focus() {
    this.#reachable?.focus();
  }

  /** One tile at a time is reached by tab; the others by arrow keys. */
  #reach(tile) {
    if (this.#reachable) this.#reachable.tabIndex = -1;
    this.#reachable = tile ?? null;
    if (tile) tile.tabIndex = 0;
  }

  /** In the order of their names, numbers as numbers. */
  #place(fresh) {
    const compare = new Intl.Collator("en", { numeric: true }).compare;
    fresh.sort((a, b) => compare(a.name, b.name));
    if (fresh.length === this.#tiles.size) {
      this.#root.append(...fresh.map((tile) => tile.element));
      return;
    }
    const all = [...this.#tiles.values()].sort((a, b) => compare(a.name, b.name));
    all.forEach((tile, index) => {
      if (this.#root.children[index] !== tile.element) this.#root.insertBefore(tile.element, this.#root.children[index] ?? null);
    });
  }

  #visible() {
    return [...this.#root.children].filter((tile) => !tile.hidden);
  }

  #keyed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const tiles = this.#visible();
    const at = tiles.indexOf(document.activeElement);
    if (at < 0) return;
    const top = tiles[0].offsetTop;
    const columns = tiles.findIndex((tile) => tile.offsetTop !== top);
    const row = columns < 0 ? tiles.length : columns;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -row, ArrowDown: row, Home: -at, End: tiles.length - 1 - at };
    const next = event.key in steps ? tiles[at + steps[event.key]] : undefined;
    if (!(event.key in steps)) return;
    event.preventDefault();
    if (next) {
      this.#onSelect(next.dataset.name);
      next.focus();
    }
  }
}

function made(name) {
  const element = document.createElement("button");
  element.type = "button";
  element.className = "tile";
  element.tabIndex = -1;
  element.dataset.name = name;
  element.setAttribute("aria-pressed", "false");
  const title = element.appendChild(document.createElement("span"));
  title.className = "name";
  title.textContent = name;
  const bars = {};
  for (const resource of ["cpu", "memory"]) {
    bars[resource] = element.appendChild(document.createElement("span"));
    bars[resource].className = `bar ${resource}`;
  }
  const strip = element.appendChild(document.createElement("span"));
  strip.className = "strip";
  const figures = element.appendChild(document.createElement("span"));
  figures.className = "figures";
  return { name, element, bars, strip, figures };
}

function draw(tile, node, scene) {
  const { element, bars, strip } = tile;
  const requested = scene.cluster.requestedOn(node.name);
  const state = node.ready === false ? "not ready" : node.open === false ? "cordoned" : "";
  element.dataset.state = state;
  const words = [`node ${node.name}`, ...(state ? [state] : [])];
  for (const [resource, used] of [["cpu", node.usedCpu], ["memory", node.usedMemory]]) {
    const whole = node[resource] ?? 0;
    const bar = bars[resource];
    bar.hidden = !whole;
    if (!whole) continue;
    const part = requested[resource] / whole;
    bar.style.setProperty("--requested", Math.min(part, 1).toFixed(3));
    bar.style.setProperty("--used", used === undefined ? "0" : Math.min(used / whole, 1).toFixed(3));
    bar.classList.toggle("full", part > 0.9);
    words.push(`${resource} ${percent(part)} requested${used === undefined ? "" : `, ${percent(used / whole)} used`} of ${amount[resource](whole)}`);
  }
  words.push(count(requested.pods, "pod"));
  tile.figures.textContent = [
    ...(node.cpu ? [`cpu ${percent(requested.cpu / node.cpu)}`, `memory ${percent(requested.memory / node.memory)}`] : []),
    count(requested.pods, "pod"),
  ].join(" · ");
  const shown = drawStrip(strip, node, scene);
  element.hidden = !(scene.filter.isEmpty || shown || scene.filter.node(node));
  element.setAttribute("aria-label", words.join(", "));
  element.title = words.join("\n");
}

/** A part of the strip for each pod, in the colour of its group; returns how many are meant by the filter. */
function drawStrip(strip, node, { cluster, dimension, colours, filter }) {
  const counts = new Map();
  let total = 0;
  for (const pod of cluster.podsOf(node.name)) {
    if (!holds(pod) || !filter.pod(pod)) continue;
    const number = colours.number(dimension.of(pod));
    counts.set(number, (counts.get(number) ?? 0) + 1);
    total += 1;
  }
  const room = Math.max(node.pods ?? 0, total, 1);
  const stops = [];
  let at = 0;
  // below a hundredth of the room a pod would not be seen; strips tell of shares, labels of numbers
  const width = Math.max(100 / room, Math.min(4, 100 / Math.max(total, 1)));
  for (const [number, pods] of [...counts].sort((a, b) => a[0] - b[0])) {
    const end = at + pods * width;
    stops.push(`var(--c${number}) ${at.toFixed(1)}% ${end.toFixed(1)}%`);
    at = end;
  }
  strip.style.backgroundImage = stops.length ? `linear-gradient(90deg, ${stops.join(", ")}, transparent ${at.toFixed(1)}%)` : "none";
  return total;
}
