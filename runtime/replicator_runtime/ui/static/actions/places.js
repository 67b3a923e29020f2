// @ts-check
/** Where menus, questions and outcomes are shown; each page that has actions has it once. */
import { html } from "../core/html.js";
import { MenuPlace } from "../parts/menu.js";
import { AskPlace } from "./ask.js";
import { FollowedPlace } from "./followed.js";
import { AnswerPlace } from "./job_answer.js";

export const Places = () => html`<${MenuPlace} /><${AskPlace} /><${FollowedPlace} /><${AnswerPlace} />`;
