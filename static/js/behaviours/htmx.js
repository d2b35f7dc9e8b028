// HTMX is fetched once the page has been painted, and only where something asks for it: nobody waits for it to read.
// Until then, as without it, links and forms work as they do on any page.
const source = document.querySelector("script[data-htmx]")?.dataset.htmx
if (source && document.querySelector("[hx-get], [hx-post]")) painted().then(loaded).then(fetchIt)

function painted() {
  return new Promise((done) => {
    if (!PerformanceObserver.supportedEntryTypes?.includes("paint")) return done()
    const observer = new PerformanceObserver(() => {
      observer.disconnect()
      done()
    })
    observer.observe({ type: "paint", buffered: true })
  })
}

// It starts by itself where the document is complete, or still to come.
function loaded() {
  return new Promise((done) => {
    if (document.readyState === "complete") done()
    else addEventListener("load", done, { once: true })
  })
}

function fetchIt() {
  const script = document.createElement("script")
  script.src = source
  document.head.append(script)
}
