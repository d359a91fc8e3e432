// Figures over time, and the handle by which a time is chosen.

import { moment, percent, span } from "./format.js";
import { html } from "./vendor/preact-htm.js";

const [WIDTH, HEIGHT] = [1000, 60];
const LINES = ["cpu requested", "memory requested", "cpu used", "memory used"];
const MOST_SAMPLES = 2000;

/** What a live cluster was like since the page is open, a figure a second; every other is dropped when there are too many. */
export class Samples {
  at = [];
  lines = Object.fromEntries(LINES.map((name) => [name, []]));

  add(at, totals) {
    this.at.push(at);
    const part = (some, whole) => (whole ? some / whole : 0);
    this.lines["cpu requested"].push(part(totals.requestedCpu, totals.cpu));
    this.lines["memory requested"].push(part(totals.requestedMemory, totals.memory));
    this.lines["cpu used"].push(totals.isMeasured ? part(totals.usedCpu, totals.cpu) : NaN);
    this.lines["memory used"].push(totals.isMeasured ? part(totals.usedMemory, totals.memory) : NaN);
    if (this.at.length > MOST_SAMPLES) {
      for (const values of [this.at, ...Object.values(this.lines)]) values.splice(0, values.length, ...values.filter((_, index) => index % 2));
    }
  }
}

/** The figures of a run: each holds for an equal part of its time. */
export function ofChart(chart) {
  const parts = Math.max(...Object.values(chart.lines).map((values) => values.length), 1);
  const width = (chart.ended - chart.began) / parts;
  return { at: Array.from({ length: parts }, (_, slot) => chart.began + slot * width), lines: chart.lines };
}

export function Timeline({ began, ended, at, isLive, figures, marks, onLook }) {
  if (!(ended > began)) return html`<p class="soft">The timeline begins now.</p>`;
  const chosen = at ?? ended;
  const x = (time) => ((time - began) / (ended - began)) * WIDTH;
  const said = isLive && at === null ? "now" : isLive ? `${moment(chosen, true)} (${span(ended - chosen)} ago)` : `${moment(chosen, false)} UTC (after ${span(chosen - began)})`;
  return html`
    <div class="legend">
      ${LINES.filter((name) => figures.lines[name]?.some((value) => !Number.isNaN(value))).map(
        (name) => html`<span class=${classOf(name)} key=${name}>${name} <b>${measured(valueAt(figures, name, chosen))}</b></span>`,
      )}
      <output for="when">${said}</output>
      <button type="button" disabled=${at === null} onClick=${() => onLook(null)}>${isLive ? "Live" : "End"}</button>
    </div>
    <div class="chart">
      <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" aria-hidden="true">
        ${marks.map(([time, text]) => html`<line class="mark" x1=${x(time)} x2=${x(time)} y1="0" y2=${HEIGHT}><title>${text}</title></line>`)}
        ${LINES.map((name) => html`<polyline class=${classOf(name)} points=${points(figures, name, x, ended)} />`)}
        <line class="chosen" x1=${x(chosen)} x2=${x(chosen)} y1="0" y2=${HEIGHT} />
      </svg>
      <input id="when" type="range" aria-label="Time" aria-valuetext=${said} min=${began} max=${ended} step="any" value=${chosen}
        onKeyDown=${(event) => stepped(event, { began, ended, chosen, isLive, onLook })}
        onInput=${(event) => onLook(Number(event.target.value) >= ended ? null : Number(event.target.value))} />
    </div>`;
}

/** Keys move by a hundredth of what there is; the browser's own step is anything. */
function stepped(event, { began, ended, chosen, onLook }) {
  const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10, Home: -100, End: 100 };
  if (!(event.key in steps)) return;
  event.preventDefault();
  const next = Math.max(chosen + (steps[event.key] * (ended - began)) / 100, began);
  onLook(next >= ended ? null : next);
}

function classOf(name) {
  return `line ${name.replace(" ", "-")}`;
}

function valueAt(figures, name, time) {
  const index = figures.at.findLastIndex((at) => at <= time);
  return figures.lines[name]?.[Math.max(index, 0)] ?? 0;
}

function measured(part) {
  return Number.isNaN(part) ? "–" : percent(part);
}

function points(figures, name, x, ended) {
  const values = figures.lines[name] ?? [];
  const y = (value) => (HEIGHT - Math.min(value, 1) * (HEIGHT - 2) - 1).toFixed(1);
  const found = [];
  values.forEach((value, index) => {
    if (Number.isNaN(value)) return;
    const until = figures.at[index + 1] ?? ended;
    found.push(`${x(figures.at[index]).toFixed(1)},${y(value)} ${x(until).toFixed(1)},${y(value)}`);
  });
  return found.join(" ");
}
