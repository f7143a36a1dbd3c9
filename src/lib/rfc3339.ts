const FORM = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)$/i;

/** Milliseconds since the epoch; undefined for what is no RFC 3339 time, also where `Date` would find a meaning: `2020`, 30 February. */
export function parseRfc3339(text: string): number | undefined {
  const [, year, month, day] = FORM.exec(text) ?? [];
  if (year === undefined) return undefined;
  const lastOfMonth = new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate();
  const at = Date.parse(text.toUpperCase());
  return Number.isNaN(at) || Number(day) > lastOfMonth ? undefined : at;
}
