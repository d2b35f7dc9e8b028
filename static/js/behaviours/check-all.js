// data-check-all="name": ticks every box of that name in the button's form, or clears them where all are ticked.
document.addEventListener("click", ({ target }) => {
  const button = target.closest("[data-check-all]")
  if (!button) return
  const boxes = [...button.form.elements].filter((box) => box.name === button.dataset.checkAll && box.type === "checkbox")
  const tick = boxes.some((box) => !box.checked)
  for (const box of boxes) box.checked = tick
})
