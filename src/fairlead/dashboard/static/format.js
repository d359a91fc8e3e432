// Amounts, parts and times as people write them.

const SIZES = [["Ti", 2 ** 40], ["Gi", 2 ** 30], ["Mi", 2 ** 20], ["Ki", 2 ** 10]];

export function cpu(milli) {
  return milli % 1000 === 0 || milli >= 100_000 ? String(Math.round(milli / 1000)) : milli < 1000 ? `${milli}m` : (milli / 1000).toFixed(1);
}

export function memory(bytes) {
  const [suffix, size] = SIZES.find(([, unit]) => bytes >= unit) ?? ["", 1];
  return trimmed(bytes / size) + suffix;
}

export const amount = { cpu, memory };

export function percent(part) {
  return `${Math.round(part * 100)} %`;
}

export function count(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

/** The time of day, with the day where it is not today's. That of a run is UTC, as in all that is told of it. */
export function moment(seconds, isLive) {
  const at = new Date(seconds * 1000);
  if (!isLive) return at.toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", timeZone: "UTC" });
  const isToday = at.toDateString() === new Date().toDateString();
  return at.toLocaleString("en-GB", isToday ? { timeStyle: "medium" } : { dateStyle: "medium", timeStyle: "short" });
}

/** A length of time by its two largest units: `1d 4h`. */
export function span(seconds) {
  const units = [["d", 86_400], ["h", 3600], ["m", 60], ["s", 1]];
  let left = Math.round(seconds);
  const parts = [];
  for (const [unit, size] of units) {
    const whole = Math.floor(left / size);
    left -= whole * size;
    if (whole || (unit === "s" && !parts.length)) parts.push(`${whole}${unit}`);
  }
  return parts.slice(0, 2).join(" ");
}

function trimmed(value) {
  return value.toFixed(1).replace(/\.0$/, "");
}
