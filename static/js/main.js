// Behaviours are delegated, so they hold for rows that arrive later too. Without any of them every page still works.
// The semicolons behind the imports are needed: by them the files' hashed names are put in for production.
import "./behaviours/chart.js";
import "./behaviours/check-all.js";
import "./behaviours/console-nav.js";
import "./behaviours/copy.js";
import "./behaviours/confirm-submit-once.js";
import "./behaviours/facets.js";
import "./behaviours/htmx.js";
import "./behaviours/live.js";
import "./behaviours/menu.js";
import "./behaviours/offline.js";
import "./behaviours/print.js";

document.documentElement.dataset.js = "on"
