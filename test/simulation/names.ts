/** Ids in a text, shortened to what tells them apart. */
export function short(text: string): string {
  return text.replaceAll(/[0-9a-f]{56}(?=[0-9a-f]{8})/g, '');
}
