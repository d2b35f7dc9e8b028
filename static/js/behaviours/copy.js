// data-copy="text": copies it and says so for two seconds, in the button itself, where a screen reader hears it.
document.addEventListener("click", async ({ target }) => {
  const button = target.closest("[data-copy]")
  if (!button) return
  const copied = await copy(button.dataset.copy)
  say(button, copied)
})

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    return false // plain http on another machine, or permission refused
  }
}

function say(button, copied) {
  if (!copied) select(button)
  button.dataset.label ??= button.textContent
  button.dataset.state = copied ? "copied" : "failed"
  button.setAttribute("aria-live", "polite")
  button.textContent = copied ? button.dataset.copiedLabel : button.dataset.failedLabel
  clearTimeout(Number(button.dataset.timer))
  button.dataset.timer = setTimeout(() => {
    button.textContent = button.dataset.label
    delete button.dataset.state
  }, copied ? 2000 : 5000)
}

// Second best: mark the text beside the button, so that the keyboard can copy it.
function select(button) {
  const text = button.closest(".copyable")?.querySelector(".copyable__text")
  if (text) getSelection().selectAllChildren(text)
}
