// @ts-check
/** Icons: outlines of 16 units, in the text's colour, never the only sign of anything. */
import { html } from "../core/html.js";

/** @type {Record<string, string>} */
const SHAPES = {
  ok: "M3 8.500l3.200 3.200L13 5",
  warning: "M8 2.500l6.200 11H1.800zM8 6.500v3M8 11.600v.1",
  error: "M8 2a6 6 0 100 12A6 6 0 008 2zM5.800 5.800l4.400 4.400m0-4.400l-4.400 4.400",
  info: "M8 2a6 6 0 100 12A6 6 0 008 2zM8 7.300V11M8 5v.1",
  paused: "M5.500 3.500v9M10.500 3.500v9",
  running: "M5 3.200v9.600L12.500 8z",
  stopped: "M4 4h8v8H4z",
  waiting: "M8 2a6 6 0 100 12A6 6 0 008 2zM8 4.800V8l2.300 1.500",
  copy: "M5.500 5.500h8v8h-8zM10.500 5.500v-3h-8v8h3",
  close: "M4 4l8 8M12 4l-8 8",
  search: "M7 2.500a4.500 4.500 0 100 9 4.500 4.500 0 000-9zM10.300 10.300L14 14",
  plus: "M8 3v10M3 8h10",
  menu: "M2.500 4.500h11M2.500 8h11M2.500 11.500h11",
  light: "M8 5a3 3 0 100 6 3 3 0 000-6zM8 1.500V3M8 13v1.500M1.500 8H3M13 8h1.500M3.400 3.400l1 1M11.600 11.600l1 1M3.400 12.600l1-1M11.600 4.400l1-1",
  dark: "M13.500 9.500A6 6 0 016.500 2.500a6 6 0 107 7z",
  system: "M2 3h12v8H2zM6 13.500h4M8 11v2.500",
  more: "M3.500 8h.1M8 8h.1M12.500 8h.1",
  down: "M4 6l4 4 4-4",
  right: "M6 4l4 4-4 4",
  left: "M10 4L6 8l4 4",
  pipelines: "M2 4.500h4l4 7h4M2 11.500h4l1.200-2.100M8.800 6.600L10 4.500h4",
  connections: "M6 9.900L4.800 11a2.400 2.400 0 01-3.400-3.400L4 5a2.400 2.400 0 013.400 0M10 6.100L11.200 5a2.400 2.400 0 013.400 3.400L12 11a2.400 2.400 0 01-3.400 0M6 8h4",
  plugins: "M2.500 2.500h4.500V7H2.500zM9 2.500h4.500V7H9zM2.500 9h4.500v4.500H2.500zM11.200 9v4.500M9 11.200h4.500",
  settings: "M2 4.500h7M12 4.500h2M10.500 3v3M2 11.500h2M7 11.500h7M5.500 10v3",
  refresh: "M13 8a5 5 0 11-1.500-3.600M13 2.500v3h-3",
  trash: "M3 4.500h10M6 4.500v-2h4v2M4.500 4.500l.6 9h5.800l.6-9",
  upload: "M8 10.500V3M5 5.500L8 2.500l3 3M2.500 11v2.500h11V11",
  download: "M8 2.500V10M5 7.500l3 3 3-3M2.500 11v2.500h11V11",
  database: "M3 4.200c0-1.200 2.200-2.200 5-2.200s5 1 5 2.200-2.200 2.200-5 2.200-5-1-5-2.200zM3 4.200v7.600C3 13 5.200 14 8 14s5-1 5-2.200V4.200M3 8c0 1.200 2.200 2.200 5 2.200s5-1 5-2.200",
};

/**
 * @param {{name: string, label?: string}} props A label is read to those who do not see it.
 */
export function Icon({ name, label }) {
  return html`<svg class="icon" viewBox="0 0 16 16" width="16" height="16" role=${label ? "img" : undefined} aria-label=${label} aria-hidden=${label ? undefined : "true"} focusable="false">
    <path d=${SHAPES[name] ?? SHAPES.info} />
  </svg>`;
}
