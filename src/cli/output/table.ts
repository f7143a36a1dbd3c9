import { printable } from './printable.ts';

/** Lays rows out in columns, three blanks apart, as kubectl does: no lines, nothing after the last cell. */
export function layOut(header: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const widths = columnWidths([header, ...rows]);
  return [header, ...rows].map((row) => formatRow(row, widths));
}

const GAP = 3;

/** As {@link formatRow} shows the cells. */
export function columnWidths(rows: readonly (readonly string[])[]): number[] {
  const widths: number[] = [];
  for (const row of rows) {
    row.forEach((cell, column) => {
      widths[column] = Math.max(widths[column] ?? 0, printable(cell).length);
    });
  }
  return widths;
}

/** With what controls a terminal escaped: cells are others' words. */
export function formatRow(row: readonly string[], widths: readonly number[]): string {
  return row
    .map(printable)
    .map((cell, column) => (column === row.length - 1 ? cell : cell.padEnd((widths[column] ?? 0) + GAP)))
    .join('')
    .trimEnd();
}
