// The page: what the server tells goes into a history, and what of it is looked at onto the screen, once in a frame.

import { History } from "./cluster.js";
import { Colours, DIMENSIONS, filter } from "./groups.js";
import { Bar, Help, Side } from "./panels.js";
import { Samples, Timeline, ofChart } from "./timeline.js";
import { Tiles } from "./tiles.js";
import { html, render } from "./vendor/preact-htm.js";

const PANELS_MILLISECONDS = 250; // texts that change faster are not read
const MOST_SHARES = 2000;
const CONNECTING = { kind: "soft", text: "connecting" };

const place = (id) => document.getElementById(id);
const dirty = new Set(); // names of nodes whose tiles are out of date
const tiles = new Tiles(place("nodes"), (name) => act.node(name));
const page = {
  about: { title: "", variants: [] },
  variant: "",
  state: CONNECTING,
  dimension: localStorage.getItem("dimension") in DIMENSIONS ? localStorage.getItem("dimension") : "qos",
  filterText: "",
  selection: null,
  chart: null,
  hasHelp: false,
};
let history = new History((name) => dirty.add(name));
const samples = new Samples();
let shares = []; // batches that told of some
let isWhole = false; // whether the server has told all that was there
let colours = newColours();
let source = null;
let ahead = 0; // the server's clock of this one, in seconds
let panelsAt = 0;
let isPlanned = false;
let overview = { top: 0, pod: "" }; // how far it was scrolled when a pod or a node was chosen, and which
let whenDrawn = null; // what is left to do as soon as the texts are drawn
let later = null; // the timer that draws texts which were drawn a moment ago

const act = {
  node: (name) => choose({ kind: "node", name }),
  pod: (name) => choose({ kind: "pod", name }),
  close: () => choose(null),
  look(at) {
    history.look(at);
    plan(0);
  },
  filter(text) {
    page.filterText = text;
    redraw();
  },
  dimension(name) {
    page.dimension = name;
    localStorage.setItem("dimension", name);
    colours = newColours();
    redraw();
  },
  variant(name) {
    page.variant = name;
    history.at = null;
    choose(null);
    listen();
  },
  theme() {
    setTheme(theme() === "dark" ? "light" : "dark");
    plan(0);
  },
  help() {
    page.hasHelp = true;
    plan(0);
  },
};

function newColours() {
  return new Colours(DIMENSIONS[page.dimension].order);
}

// --- what the server tells -------------------------------------------------------------------------------------------

function listen() {
  source?.close();
  source = new EventSource(`/events?variant=${encodeURIComponent(page.variant)}`);
  source.addEventListener("begin", () => {
    for (const name of history.shown.nodes.keys()) dirty.add(name);
    history = new History((name) => dirty.add(name));
    shares = [];
    isWhole = false;
    page.state = page.about.isLive ? { kind: "good", text: "live" } : { kind: "soft", text: "a kept run" };
    plan(0);
  });
  source.addEventListener("batch", (event) => {
    const batch = JSON.parse(event.data);
    if (batch.shares) shares.push(batch);
    if (shares.length > MOST_SHARES) shares.splice(0, MOST_SHARES / 2);
    history.record(batch);
    if (batch.isWhole) history.settle(batch.at);
    isWhole ||= batch.isWhole || !page.about.isLive; // of a run the first batch has all nodes
    ahead = batch.at - Date.now() / 1000;
    if (batch.isWhole) second();
    plan();
  });
  source.addEventListener("chart", (event) => {
    page.chart = JSON.parse(event.data);
    plan();
  });
  source.addEventListener("error", () => {
    const isOver = source.readyState === EventSource.CLOSED;
    page.state = { kind: "bad", text: isOver ? "not let in any more: open the link that was printed" : "no answer, trying again" };
    plan(0);
  });
}

/** Time goes on where nothing changes, too. */
function second() {
  if (page.state.kind !== "good" || !isWhole) return;
  const now = Date.now() / 1000 + ahead;
  history.ended = Math.max(history.ended, now);
  samples.add(now, history.latest.totals);
  plan();
}

/** Another panel is read from its top, and the overview on from where it was left, by keyboard, too. */
function turnTo(selection) {
  const side = place("side");
  const hasFocus = side.contains(document.activeElement);
  if (!page.selection) overview = { top: side.scrollTop, pod: selection?.name ?? "" };
  whenDrawn = () => {
    side.scrollTop = selection ? 0 : overview.top;
    const next = selection ? ".back" : `[data-pod="${CSS.escape(overview.pod)}"]`;
    if (hasFocus) side.querySelector(next)?.focus({ preventScroll: true });
  };
}

async function choose(selection) {
  turnTo(selection);
  page.selection = selection;
  tiles.select(selection?.kind === "node" ? selection.name : null);
  plan(0);
  if (selection?.kind !== "pod") return;
  const answer = await fetch(`/why?${new URLSearchParams({ pod: selection.name, variant: page.variant })}`).catch(() => null);
  if (page.selection !== selection) return;
  if (answer?.ok) selection.why = await answer.json();
  else selection.why = { error: answer ? await answer.text() : "The server does not answer." };
  plan(0);
}

// --- what is on the screen -------------------------------------------------------------------------------------------

function redraw() {
  for (const name of history.shown.nodes.keys()) dirty.add(name);
  plan(0);
}

/** Draw in the next frame: tiles that changed, and the texts if they were drawn so long ago. */
function plan(panelsWithin = PANELS_MILLISECONDS) {
  if (panelsWithin === 0) panelsAt = 0;
  if (isPlanned) return;
  isPlanned = true;
  requestAnimationFrame(draw);
}

function draw(now) {
  isPlanned = false;
  const meant = filter(page.filterText);
  if (dirty.size) {
    tiles.draw(dirty, { cluster: history.shown, dimension: DIMENSIONS[page.dimension], colours, filter: meant });
  }
  if (dirty.size || (isWhole && !history.shown.nodes.size)) place("none").textContent = tiles.isEmpty ? emptiness(meant) : "";
  dirty.clear();
  if (now - panelsAt < PANELS_MILLISECONDS) {
    later ??= setTimeout(() => ((later = null), plan()), PANELS_MILLISECONDS);
    return;
  }
  panelsAt = now;
  const { about, chart } = page;
  const cluster = history.shown;
  render(html`<${Bar} ...${page} cluster=${cluster} theme=${theme()} act=${act} />`, place("bar"));
  render(html`<${Side} ...${page} cluster=${cluster} colours=${colours} filter=${meant} shares=${sharesAt(history.at ?? Infinity)} act=${act} />`, place("side"));
  const figures = chart ? ofChart(chart) : samples;
  render(
    html`<${Timeline} began=${chart?.began ?? history.began} ended=${chart?.ended ?? history.ended} at=${history.at}
      isLive=${about.isLive} figures=${figures} marks=${chart?.marks ?? []} onLook=${act.look} />`,
    place("time"),
  );
  render(page.hasHelp ? html`<${Help} onClose=${() => ((page.hasHelp = false), plan(0))} />` : null, place("dialog"));
  whenDrawn?.();
  whenDrawn = null;
}

function emptiness(meant) {
  if (!meant.isEmpty) return "No node, and no pod on one, that the filter means.";
  if (page.about.isLive) return "There are no nodes.";
  if (history.latest.pods.size) return "None of these pods was on a node.";
  return "Nothing happened to any pod: none waited, and none was driven away or killed.";
}

function sharesAt(at) {
  return shares.findLast((batch) => batch.at <= at)?.shares;
}

// --- keys and colours ------------------------------------------------------------------------------------------------

function theme() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  localStorage.setItem("theme", name);
}

const KEYS = {
  "/": () => place("filter").focus(),
  "?": act.help,
  l: () => act.look(null),
  t: act.theme,
  ArrowDown: () => tiles.focus(),
  ArrowRight: () => tiles.focus(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || page.hasHelp) return;
  const isTyping = event.target.closest("input, select");
  if (event.key === "Escape") {
    if (isTyping?.id === "filter") act.filter("");
    else act.close();
    document.activeElement.blur();
  } else if (!isTyping && event.key in KEYS && !event.defaultPrevented && !(event.key.startsWith("Arrow") && event.target !== document.body)) {
    event.preventDefault();
    KEYS[event.key]();
  }
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plan(0));

if (localStorage.getItem("theme")) document.documentElement.dataset.theme = localStorage.getItem("theme");
page.about = await (await fetch("/about")).json();
document.title = `${page.about.title} · Fairlead`;
if (!page.about.isLive && !localStorage.getItem("dimension")) {
  page.dimension = "namespace"; // a run knows no QoS
  colours = newColours();
}
page.variant = page.about.variants?.[0] ?? "";
listen();
if (page.about.isLive) setInterval(second, 1000);
