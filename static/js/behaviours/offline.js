// A browser that has been here once can say that there is no connection, instead of its own error page.
if ("serviceWorker" in navigator && window.isSecureContext) {
  window.addEventListener("load", () => navigator.serviceWorker.register("/service-worker.js"))
}
