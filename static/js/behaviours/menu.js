// Menus are <details>; with a script they also close on Escape and on a click elsewhere.
const MENUS = "details.popover[open], details.menu[open]"

document.addEventListener("click", ({ target }) => {
  for (const menu of document.querySelectorAll(MENUS)) if (!menu.contains(target)) menu.open = false
})

document.addEventListener("keydown", ({ key }) => {
  if (key !== "Escape") return
  for (const menu of document.querySelectorAll(MENUS)) {
    menu.open = false
    menu.querySelector("summary").focus()
  }
})
