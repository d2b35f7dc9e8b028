// A browser that has been here once can say that there is no connection, instead of its own error page.
if ("serviceWorker" in navigator && window.isSecureContext) {
  const { serviceWorker } = navigator
  // Where it cannot be had, the browser says itself that there is no connection.
  window.addEventListener("load", () => serviceWorker.register("/service-worker.js").catch(() => {}))
}
