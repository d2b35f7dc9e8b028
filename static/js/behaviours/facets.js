// The list comes anew with every filter; its facets stay open or shut as the visitor left them.
const facets = (root) => root.querySelectorAll("details[data-facet]")
const state = (form) => new URLSearchParams(new FormData(form)).toString()
let asked = "", left = null

// What is not set does not stand in the address.
document.addEventListener("htmx:configRequest", ({ target, detail }) => {
  if (target.id !== "filters") return
  asked = state(target)
  for (const [name, value] of [...detail.formData]) if (value === "") detail.formData.delete(name)
})

// An answer to a question that the visitor has changed meanwhile would undo the change: the next answer comes.
document.addEventListener("htmx:beforeSwap", ({ target, detail }) => {
  if (target.id !== "catalogue") return
  const form = target.querySelector("#filters")
  if (form && state(form) !== asked) detail.shouldSwap = false
  else left = new Map([...facets(target)].map((facet) => [facet.dataset.facet, facet.open]))
})

document.addEventListener("htmx:afterSwap", () => {
  const catalogue = left && document.getElementById("catalogue")
  if (!catalogue) return
  for (const facet of facets(catalogue)) facet.open = left.get(facet.dataset.facet) ?? facet.open
  left = null
})
