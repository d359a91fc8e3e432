// The texts beside the tiles. Whatever a stranger wrote reaches the page as text: preact makes no HTML of it.

import { holds, waits } from "./cluster.js";
import { amount, count, cpu, memory, moment, percent } from "./format.js";
import { DIMENSIONS, summed } from "./groups.js";
import { html } from "./vendor/preact-htm.js";

const LISTED = 100;

export function Bar({ about, cluster, state, dimension, filterText, theme, variant, act }) {
  const totals = cluster.totals;
  return html`
    <h1>Fairlead <span class="soft">${about.title}</span></h1>
    <span class=${`state ${state.kind}`} role="status">${state.text}</span>
    <span class="soft">${count(cluster.nodes.size, "node")}, ${count(cluster.pods.size, "pod")}${totals.waiting ? `, ${totals.waiting.toLocaleString("en")} waiting` : ""}</span>
    <span class="space"></span>
    ${about.variants?.length > 1 &&
    html`<label>Variant <select value=${variant} onChange=${(event) => act.variant(event.target.value)}>
      ${about.variants.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
    </select></label>`}
    <label>Colours <select value=${dimension} onChange=${(event) => act.dimension(event.target.value)}>
      ${Object.entries(DIMENSIONS).map(([name, { label }]) => html`<option key=${name} value=${name}>${label}</option>`)}
    </select></label>
    <input id="filter" type="search" placeholder="Filter ( / )" aria-label="Filter nodes and pods" value=${filterText}
      onInput=${(event) => act.filter(event.target.value)} />
    <button type="button" onClick=${act.theme} aria-label=${`Use the ${theme === "dark" ? "light" : "dark"} colours`}>${theme === "dark" ? "☀" : "☾"}</button>
    <button type="button" onClick=${act.help} aria-label="Help">?</button>`;
}

export function Side({ about, cluster, dimension, colours, filter, selection, shares, chart, act }) {
  if (selection?.kind === "pod") return html`<${Pod} pod=${cluster.pods.get(selection.name)} ...${selection} act=${act} />`;
  if (selection?.kind === "node" && cluster.nodes.has(selection.name)) {
    return html`<${Node} node=${cluster.nodes.get(selection.name)} cluster=${cluster} filter=${filter} act=${act} />`;
  }
  return html`
    ${about.note && html`<p class="soft">${about.note}</p>`}
    <${Whole} cluster=${cluster} />
    <${Groups} cluster=${cluster} dimension=${dimension} colours=${colours} filter=${filter} act=${act} />
    <${Shares} shares=${shares} />
    <${Done} marks=${chart?.marks} act=${act} />
    <${Findings} sections=${chart?.findings} />
    <${Waiting} cluster=${cluster} filter=${filter} act=${act} />
    ${!about.isLive && html`<${Disrupted} cluster=${cluster} filter=${filter} act=${act} />`}`;
}

function Amounts({ rows }) {
  return html`<table class="amounts">
    <thead><tr><th></th><th>allocatable</th><th>requested</th><th>used</th></tr></thead>
    <tbody>${rows.map(([name, whole, requested, used]) => html`<tr key=${name}>
      <th scope="row">${name}</th><td>${amount[name](whole)}</td>
      <td>${amount[name](requested)} <span class="soft">${percent(requested / whole)}</span></td>
      <td>${used === undefined ? "–" : html`${amount[name](used)} <span class="soft">${percent(used / whole)}</span>`}</td>
    </tr>`)}</tbody>
  </table>`;
}

function Whole({ cluster }) {
  const totals = cluster.totals;
  if (!totals.cpu) return null;
  const used = (value) => (totals.isMeasured ? value : undefined);
  return html`<h2>Cluster</h2><${Amounts} rows=${[
    ["cpu", totals.cpu, totals.requestedCpu, used(totals.usedCpu)],
    ["memory", totals.memory, totals.requestedMemory, used(totals.usedMemory)],
  ]} />`;
}

function Groups({ cluster, dimension, colours, filter, act }) {
  const groups = summed(cluster.pods.values(), DIMENSIONS[dimension], filter.pod);
  if (!groups.length) return html`<h2>Pods</h2><p class="soft">None${filter.isEmpty ? "" : " that the filter means"}.</p>`;
  const shown = groups.slice(0, 20);
  const hasAmounts = groups.some((group) => group.cpu || group.memory);
  return html`<h2>Pods by ${DIMENSIONS[dimension].label}</h2>
    <table>
      <thead><tr><th></th><th>placed</th><th>waiting</th>${hasAmounts && html`<th>cpu</th><th>memory</th>`}</tr></thead>
      <tbody>${shown.map((group) => html`<tr key=${group.name}>
        <th scope="row"><button type="button" class="link" title="Show these alone" onClick=${() => act.filter(`${dimension}=${group.name}`)}>
          <i class=${`swatch c${colours.number(group.name)}`}></i>${group.name}</button></th>
        <td>${group.placed.toLocaleString("en")}</td><td class=${group.waiting ? "bad" : ""}>${group.waiting.toLocaleString("en")}</td>
        ${hasAmounts && html`<td>${cpu(group.cpu)}</td><td>${memory(group.memory)}</td>`}
      </tr>`)}</tbody>
    </table>
    ${groups.length > shown.length && html`<p class="soft">and ${groups.length - shown.length} more</p>`}`;
}

function PodList({ pods, act, withNote }) {
  return html`<ul class="pods">${pods.slice(0, LISTED).map((pod) => html`<li key=${pod.key}>
    <button type="button" class="link" data-pod=${pod.key} onClick=${() => act.pod(pod.key)}>${pod.key}</button>
    <span class=${`soft ${pod.phase === "Failed" ? "bad" : ""}`}>${[pod.phase, pod.qos, pod.priority && `priority ${pod.priority}`].filter(Boolean).join(", ")}</span>
    ${withNote && pod.note && html`<div class="soft note">${pod.note}</div>`}
  </li>`)}</ul>
  ${pods.length > LISTED && html`<p class="soft">and ${(pods.length - LISTED).toLocaleString("en")} more: filter with /</p>`}`;
}

function Waiting({ cluster, filter, act }) {
  if (!cluster.totals.waiting) return null;
  const pods = [...cluster.pods.values()].filter((pod) => waits(pod) && filter.pod(pod));
  if (!pods.length) return null;
  pods.sort((a, b) => (b.priority ?? 0) - (a.priority ?? 0) || (a.key < b.key ? -1 : 1));
  return html`<h2>Waiting for a node</h2><${PodList} pods=${pods} act=${act} withNote />`;
}

/** The steps of a change; each leads to its time. */
function Done({ marks, act }) {
  if (!marks?.length) return null;
  return html`<h2>What was done</h2>
    <ul class="pods steps">${marks.slice(0, LISTED).map(([at, text]) => html`<li key=${`${at} ${text}`}>
      <button type="button" class="link" onClick=${() => act.look(at)}>${moment(at, false)}</button><span>${text}</span></li>`)}</ul>`;
}

/** What a run has to tell beside its pods: what is gone, what never came, what a quota refused. */
function Findings({ sections }) {
  return sections?.map(([title, ...lines]) => html`<h2>${title}</h2>
    <ul class="pods">${lines.map((line) => html`<li key=${line}>${line}</li>`)}</ul>`);
}

function Disrupted({ cluster, filter, act }) {
  const pods = [...cluster.pods.values()].filter((pod) => pod.note && !waits(pod) && filter.pod(pod));
  if (!pods.length) return null;
  return html`<h2>Disrupted by then</h2><${PodList} pods=${pods} act=${act} withNote />`;
}

/** Used against deserved, by namespace: of cpu and memory, or of the whole where a run knows the shares alone. */
function Shares({ shares }) {
  if (!shares?.length) return null;
  const known = shares.filter((row) => row.share > 0 || Object.values(row.deserved).some(Boolean));
  if (!known.length) return null;
  const names = ["share", "cpu", "memory"].filter((name) => shares.some((row) => name in row.deserved || name in row.used));
  const shown = (name, value) => (name === "share" ? percent(value / 1000) : amount[name](value));
  return html`<h2>Shares: used of deserved</h2>
    <table class="shares">
      <thead><tr><th>namespace</th>${names.map((name) => html`<th key=${name}>${name}</th>`)}</tr></thead>
      <tbody>${known.slice(0, 30).map((row) => html`<tr key=${row.namespace}>
        <th scope="row">${row.namespace} ${row.overused && html`<span class="bad">overused</span>`}</th>
        ${names.map((name) => {
          const [used, deserved] = [row.used[name] ?? 0, row.deserved[name] ?? 0];
          return html`<td key=${name}>${shown(name, used)} / ${shown(name, deserved)}
            <span class=${`bar ${name}`} style=${{ "--requested": Math.min(used / Math.max(deserved, 1), 1) }}></span></td>`;
        })}</tr>`)}</tbody>
    </table>`;
}

function Back({ act }) {
  return html`<button type="button" class="back" onClick=${act.close}>← Overview</button>`;
}

function Node({ node, cluster, filter, act }) {
  const requested = cluster.requestedOn(node.name);
  const all = [...cluster.podsOf(node.name)];
  const pods = all.filter((pod) => filter.isEmpty || filter.pod(pod) || filter.node(node));
  pods.sort((a, b) => holds(b) - holds(a) || (a.key < b.key ? -1 : 1));
  return html`<${Back} act=${act} />
    <h2>${node.name}</h2>
    ${node.ready === false && html`<p class="bad">It is not ready.</p>`}
    ${node.ready !== false && node.open === false && html`<p>It is cordoned: no new pods.</p>`}
    ${node.cpu > 0 && html`<${Amounts} rows=${[
      ["cpu", node.cpu, requested.cpu, node.usedCpu],
      ["memory", node.memory, requested.memory, node.usedMemory],
    ]} />`}
    <h2>${count(requested.pods, "pod")}${node.pods ? ` of ${node.pods}` : ""}</h2>
    ${pods.length < all.length && html`<p class="soft">The filter means ${pods.length} of ${all.length}.</p>`}
    <${PodList} pods=${pods} act=${act} withNote />`;
}

function Pod({ name, pod, why, act }) {
  return html`<${Back} act=${act} />
    <h2>${name}</h2>
    ${pod ? html`<dl>
      <dt>phase</dt><dd>${pod.phase || "–"}</dd>
      <dt>node</dt><dd>${pod.node ? html`<button type="button" class="link" onClick=${() => act.node(pod.node)}>${pod.node}</button>` : "none"}</dd>
      ${pod.qos && html`<dt>QoS</dt><dd>${pod.qos}</dd>`}
      <dt>priority</dt><dd>${pod.priority ?? 0}</dd>
      ${(pod.cpu || pod.memory) && html`<dt>requests</dt><dd>${[pod.cpu && `${cpu(pod.cpu)} cpu`, pod.memory && `${memory(pod.memory)} memory`].filter(Boolean).join(", ")}</dd>`}
    </dl>` : html`<p class="soft">It is not there at this time.</p>`}
    <h2>Why</h2>
    <div aria-live="polite">${!why ? html`<p class="soft">The decision is taken again…</p>` : why.error ? html`<p>${why.error}</p>` : html`<${Why} ...${why} />`}</div>`;
}

function Why({ headline, notes = [], preemption, groups = [], scored = [], story = [] }) {
  return html`<p><b>${headline}</b></p>
    ${story.map((line) => html`<p class=${line.startsWith("  ") ? "inner" : ""}>${line.trim()}</p>`)}
    ${notes.map((note) => html`<p>${note}</p>`)}
    ${preemption && html`<p>Preemption: ${preemption}</p>`}
    ${groups.map((group) => html`<div class="refusal">
      <b>${count(group.count, "node")}</b>: ${group.reasons.join(", ")} <span class="soft">(${group.plugin})</span>
      ${group.helps && html`<div>would help: ${group.helps}</div>`}
      <div class="soft">${group.nodes.slice(0, 5).join(", ")}${group.count > 5 ? ", …" : ""}</div>
    </div>`)}
    ${scored.length > 0 && html`<p>The best of the nodes that would do, if it were placed now:</p>
      <ul class="pods">${scored.slice(0, 5).map((node) => html`<li key=${node.node}>${node.node} <b>${node.total}</b>
        <div class="soft">${Object.entries(node.scores).sort((a, b) => b[1] - a[1]).map(([plugin, score]) => `${plugin} ${score}`).join(" + ")}</div></li>`)}</ul>`}`;
}

export function Help({ onClose }) {
  const keys = [
    ["← → ↑ ↓, Home, End", "go from node to node; on the timeline, through time"],
    ["/", "filter: part of a name, or namespace=…, qos=…, priority=…"],
    ["Enter", "on a pod: why it is where it is, or waits"],
    ["Esc", "back to the overview; out of the filter"],
    ["l", "back to now, or to the end of the run"],
    ["t", "light or dark"],
    ["?", "this help"],
  ];
  return html`<dialog ref=${(dialog) => dialog && !dialog.open && dialog.showModal()} onClose=${onClose} aria-label="Help">
    <h2>Keys</h2>
    <table><tbody>${keys.map(([key, what]) => html`<tr key=${key}><th scope="row"><kbd>${key}</kbd></th><td>${what}</td></tr>`)}</tbody></table>
    <h2>A tile</h2>
    <p>Two bars, of cpu and memory: as long as what is requested of what the node can give away; the dark line in it is what is used. Below, a strip with a part for each pod, in the colour of its group.</p>
    <form method="dialog"><button type="submit" autofocus>Close</button></form>
  </dialog>`;
}
