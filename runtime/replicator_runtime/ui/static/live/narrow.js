// @ts-check
/** Whether the page is so narrow that what is beside each other is shown below each other. */
import { signal } from "../core/html.js";

const query = window.matchMedia("(max-width: 759px)");
export const narrow = signal(query.matches);
const wideQuery = window.matchMedia("(min-width: 1240px)");
/** Whether there is room for every column of a large table. */
export const wide = signal(wideQuery.matches);
wideQuery.addEventListener("change", (event) => (wide.value = event.matches));
query.addEventListener("change", (event) => (narrow.value = event.matches));
