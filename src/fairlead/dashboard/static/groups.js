// By what pods are told apart, in which colours, and what a filter means.

import { holds, namespaceOf, waits } from "./cluster.js";

export const DIMENSIONS = {
  qos: { label: "QoS", of: (pod) => pod.qos || "unknown", order: ["Guaranteed", "Burstable", "BestEffort"] },
  priority: { label: "Priority", of: (pod) => String(pod.priority ?? 0) },
  namespace: { label: "Namespace", of: namespaceOf },
};

const COLOURS = 8;

/** The colour of each group, given at first sight, so that it stays the same; those that come late share the last. */
export class Colours {
  #numbers = new Map();

  constructor(order = []) {
    for (const name of order) this.number(name);
  }

  number(name) {
    let number = this.#numbers.get(name);
    if (number === undefined) {
      number = Math.min(this.#numbers.size, COLOURS - 1);
      this.#numbers.set(name, number);
    }
    return number;
  }
}

/** Pods and what they request, by group; the largest first, or in the order of the dimension. */
export function summed(pods, dimension, isMeant) {
  const groups = new Map();
  for (const pod of pods) {
    if (!isMeant(pod) || !(holds(pod) || waits(pod))) continue;
    const name = dimension.of(pod);
    let group = groups.get(name);
    if (!group) groups.set(name, (group = { name, placed: 0, waiting: 0, cpu: 0, memory: 0 }));
    if (waits(pod)) group.waiting += 1;
    else {
      group.placed += 1;
      group.cpu += pod.cpu ?? 0;
      group.memory += pod.memory ?? 0;
    }
  }
  const rank = (group) => dimension.order?.indexOf(group.name) ?? -1;
  return [...groups.values()].sort((a, b) => rank(a) - rank(b) || b.placed + b.waiting - a.placed - a.waiting);
}

/** `namespace=shop`, `qos=Burstable`, `priority=100` are exact; any other text is a part of a node's or a pod's name. */
export function filter(text) {
  const wanted = text.trim().toLowerCase();
  const [name, value] = wanted.split("=");
  if (value !== undefined && Object.hasOwn(DIMENSIONS, name)) {
    const { of } = DIMENSIONS[name];
    return { isEmpty: false, pod: (pod) => of(pod).toLowerCase() === value, node: () => false };
  }
  return {
    isEmpty: wanted === "",
    pod: (pod) => pod.key.includes(wanted) || (pod.node ?? "").includes(wanted),
    node: (node) => node.name.includes(wanted),
  };
}
