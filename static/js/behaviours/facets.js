// The list comes anew with every filter; its facets stay open or shut as the visitor left them.
const facets = (root) => root.querySelectorAll("details[data-facet]")
let left = null

document.addEventListener("htmx:beforeSwap", ({ target }) => {
  if (target.id === "catalogue") left = new Map([...facets(target)].map((facet) => [facet.dataset.facet, facet.open]))
})

document.addEventListener("htmx:afterSwap", () => {
  const catalogue = left && document.getElementById("catalogue")
  if (!catalogue) return
  for (const facet of facets(catalogue)) facet.open = left.get(facet.dataset.facet) ?? facet.open
  left = null
})

// What is not set does not stand in the address.
document.addEventListener("htmx:configRequest", ({ target, detail }) => {
  if (target.id !== "filters") return
  for (const [name, value] of [...detail.formData]) if (value === "") detail.formData.delete(name)
})
