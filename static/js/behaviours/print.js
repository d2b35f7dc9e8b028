// A button that opens the browser's print dialogue; without it the page is printed as any page is.
document.addEventListener("click", ({ target }) => {
  if (target.closest("[data-print]")) window.print()
})
