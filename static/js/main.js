// Behaviours are delegated, so they hold for rows that arrive later too. Without any of them every page still works.
import "./behaviours/copy.js"
import "./behaviours/confirm-submit-once.js"
import "./behaviours/live.js"
import "./behaviours/menu.js"

document.documentElement.dataset.js = "on"
