// Asks where data-confirm says so, then lets a form out once. The server remains the truth: a repeated POST is harmless
// there; this only spares the visitor the doubt. data-repeatable: a form that may go out again (a download, a switch).
document.addEventListener("submit", (event) => {
  const { target: form, submitter } = event
  if (form.dataset.sent) return event.preventDefault()
  const question = submitter?.dataset.confirm ?? form.dataset.confirm
  if (question && !confirm(question)) {
    event.preventDefault()
    return event.stopImmediatePropagation()
  }
  if (form.method !== "post" || "repeatable" in form.dataset || event.defaultPrevented) return
  form.dataset.sent = "yes"
  // After this turn, or the button's own name and value would be left out of the request.
  setTimeout(() => lock(form, true))
}, true)

// HTMX answers in place, and the back button may bring a sent page back: both can be sent again.
document.addEventListener("htmx:afterRequest", ({ target }) => release(target.closest?.("form")))
addEventListener("pageshow", ({ persisted }) => {
  if (persisted) document.querySelectorAll("form[data-sent]").forEach(release)
})

function release(form) {
  if (!form?.dataset.sent) return
  delete form.dataset.sent
  lock(form, false)
}

function lock(form, busy) {
  form.setAttribute("aria-busy", busy)
  for (const button of form.elements) {
    if (button.type !== "submit" || (!busy && !("held" in button.dataset)) || (busy && button.disabled)) continue
    button.disabled = busy
    if (busy) button.dataset.held = ""
    else delete button.dataset.held
  }
}
