// What the server told, and what was so at any time since: a cluster, and the changes by which it came about.

const FINISHED = new Set(["Succeeded", "Failed", "Gone"]); // the last of pods of a run whose end is told

const NOTHING = Object.freeze({ cpu: 0, memory: 0, pods: 0 });

export function holds(pod) {
  return Boolean(pod.node) && !FINISHED.has(pod.phase ?? "");
}

export function waits(pod) {
  return !pod.node && !FINISHED.has(pod.phase ?? "");
}

export function namespaceOf(pod) {
  return pod.key.slice(0, pod.key.indexOf("/"));
}

export class Cluster {
  nodes = new Map();
  pods = new Map();
  podsOn = new Map(); // keys, by node
  requested = new Map(); // of the pods that hold something, by node
  totals = { cpu: 0, memory: 0, usedCpu: 0, usedMemory: 0, requestedCpu: 0, requestedMemory: 0, waiting: 0, isMeasured: 0 };

  /** A row, or null for one that is gone; returns what was there before, and tells which node looks different. */
  put(kind, key, row, changed) {
    const rows = this[kind];
    const old = rows.get(key) ?? null;
    if (kind === "nodes") {
      if (old) this.#countNode(old, -1);
      if (row) this.#countNode(row, 1);
      changed?.(key);
    } else {
      if (old) this.#countPod(old, -1, changed);
      if (row) this.#countPod(row, 1, changed);
    }
    if (row) rows.set(key, row);
    else rows.delete(key);
    return old;
  }

  requestedOn(node) {
    return this.requested.get(node) ?? NOTHING;
  }

  *podsOf(node) {
    for (const key of this.podsOn.get(node) ?? []) yield this.pods.get(key);
  }

  #countNode(node, sign) {
    this.totals.cpu += sign * (node.cpu ?? 0);
    this.totals.memory += sign * (node.memory ?? 0);
    this.totals.usedCpu += sign * (node.usedCpu ?? 0);
    this.totals.usedMemory += sign * (node.usedMemory ?? 0);
    if (node.usedCpu !== undefined) this.totals.isMeasured += sign;
  }

  #countPod(pod, sign, changed) {
    if (waits(pod)) this.totals.waiting += sign;
    if (!pod.node) return;
    const keys = this.podsOn.get(pod.node) ?? new Set();
    this.podsOn.set(pod.node, keys);
    if (sign > 0) keys.add(pod.key);
    else keys.delete(pod.key);
    if (holds(pod)) {
      const [cpu, memory] = [sign * (pod.cpu ?? 0), sign * (pod.memory ?? 0)];
      const known = this.requested.get(pod.node) ?? { ...NOTHING };
      this.requested.set(pod.node, { cpu: known.cpu + cpu, memory: known.memory + memory, pods: known.pods + sign });
      this.totals.requestedCpu += cpu;
      this.totals.requestedMemory += memory;
    }
    changed?.(pod.node);
  }
}

/** Two clusters: as it is, and as it was at the time that is looked at. `changed` is told of nodes that look different. */
export class History {
  latest = new Cluster();
  shown = new Cluster();
  began = Infinity;
  ended = -Infinity;
  at = null; // the time that is looked at; null: now
  #log = [];
  #cursor = 0; // how much of the log is in what is shown
  #most;
  #changed;

  constructor(changed, most = 200_000) {
    this.#changed = changed;
    this.#most = most;
  }

  record(batch) {
    this.began = Math.min(this.began, batch.at);
    this.ended = Math.max(this.ended, batch.at);
    for (const row of batch.nodes ?? []) this.#add(batch.at, "nodes", row.name, row);
    for (const row of batch.pods ?? []) this.#add(batch.at, "pods", row.key, row);
    for (const key of batch.gone ?? []) this.#add(batch.at, key.includes("/") ? "pods" : "nodes", key, null);
    this.#move(this.at ?? Infinity);
    this.#forget();
  }

  /** Whatever came until now was there already: history begins here. */
  settle(at) {
    this.#log = [];
    this.#cursor = 0;
    this.began = at;
  }

  /** Look at that time, or at the present with null. */
  look(at) {
    this.at = at;
    this.#move(at ?? Infinity);
  }

  #add(at, kind, key, row) {
    this.#log.push({ at, kind, key, old: this.latest.put(kind, key, row), row });
  }

  #move(at) {
    const log = this.#log;
    while (this.#cursor < log.length && log[this.#cursor].at <= at) {
      const change = log[this.#cursor++];
      this.shown.put(change.kind, change.key, change.row, this.#changed);
    }
    while (this.#cursor > 0 && log[this.#cursor - 1].at > at) {
      const change = log[--this.#cursor];
      this.shown.put(change.kind, change.key, change.old, this.#changed);
    }
  }

  /** The oldest changes go; what is looked at is never forgotten. */
  #forget() {
    const surplus = Math.min(this.#log.length - this.#most, this.#cursor);
    if (surplus < this.#most / 10) return;
    this.#log.splice(0, surplus);
    this.#cursor -= surplus;
    this.began = this.#log[0]?.at ?? this.ended;
  }
}
