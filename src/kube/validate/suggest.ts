/** The known word that `word` was probably meant to be: same letters in another case, or one or two slips away. */
export function closest(word: string, known: readonly string[]): string | undefined {
  if (word.length > LONGEST) return undefined;
  const lower = word.toLowerCase();
  let best: string | undefined;
  let bestDistance = word.length <= 4 ? 1 : 2;
  for (const candidate of known) {
    const distance = editDistance(lower, candidate.toLowerCase());
    if (distance < bestDistance || (distance === bestDistance && best === undefined)) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** Field names are short; a longer word is no slip of the pen. */
const LONGEST = 64;

/** Insertions, deletions, replacements and swaps of neighbours between two short words. */
function editDistance(left: string, right: string): number {
  let before: number[] = [];
  let above = Array.from({ length: right.length + 1 }, (_, column) => column);
  for (let row = 1; row <= left.length; row++) {
    const line = [row];
    for (let column = 1; column <= right.length; column++) {
      const same = left[row - 1] === right[column - 1];
      let cost = Math.min(
        (above[column] ?? 0) + 1,
        (line[column - 1] ?? 0) + 1,
        (above[column - 1] ?? 0) + (same ? 0 : 1),
      );
      if (row > 1 && column > 1 && left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1]) {
        cost = Math.min(cost, (before[column - 2] ?? 0) + 1);
      }
      line.push(cost);
    }
    before = above;
    above = line;
  }
  return above[right.length] ?? 0;
}
