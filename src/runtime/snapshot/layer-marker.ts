import { readFile } from 'node:fs/promises';

/** What stands in `layer.json` beside a layer's files. It is written last, so a layer with a marker is whole. */
export interface LayerMarker {
  readonly version: 1;
  readonly diffId: string;
  /** Content of the files. */
  readonly bytes: number;
  /** Members of the archive. */
  readonly entries: number;
  /** How the layer describes its own root directory, if it does. */
  readonly root?: DirectoryAttributes;
  /** Directories that exist only because something lies in them. Byte strings; at most {@link MAX_IMPLIED}. */
  readonly impliedDirectories: readonly string[];
  /** Nothing of the layers below shows. */
  readonly opaqueRoot: boolean;
  readonly skippedXattrs: readonly string[];
}

export interface DirectoryAttributes {
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
}

/** Markers are kept in memory: a layer of nothing but implied directories must not fill it. */
export const MAX_IMPLIED = 1000;

export const MARKER_NAME = 'layer.json';
/** Where the files are, beside the marker. */
export const FILES_NAME = 'fs';

/** The marker in a layer's directory, or undefined when there is none that this version understands. */
export async function readMarker(directory: string): Promise<LayerMarker | undefined> {
  let text: string;
  try {
    text = await readFile(`${directory}/${MARKER_NAME}`, 'utf8');
  } catch {
    return undefined;
  }
  try {
    const marker = JSON.parse(text) as Partial<LayerMarker> | null;
    return marker?.version === 1 && typeof marker.diffId === 'string' ? (marker as LayerMarker) : undefined;
  } catch {
    return undefined;
  }
}
