// Regions that refresh themselves by HTMX (hx-trigger="every …") rest while the page is hidden, say when they are out of
// date, and keep quiet for a screen reader unless the region is marked aria-live.
const polls = (element) => /\bevery\b/.test(element?.getAttribute("hx-trigger") ?? "")

document.addEventListener("htmx:beforeRequest", (event) => {
  if (document.hidden && polls(event.target)) event.preventDefault()
})

document.addEventListener("htmx:afterRequest", ({ target, detail }) => {
  if (!polls(target)) return
  target.toggleAttribute("data-stale", !detail.successful)
})

document.addEventListener("visibilitychange", () => {
  if (document.hidden || !window.htmx) return
  for (const region of document.querySelectorAll("[data-live]")) window.htmx.trigger(region, "refresh")
})
