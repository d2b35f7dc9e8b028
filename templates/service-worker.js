{% load static %}// When no answer comes at all, show the page that says so. Nothing else is kept: prices and counts are never old.
const KEPT = "offline {% static "css/site.css" %}"
const PAGES = [{% for page in pages %}"{{ page|escapejs }}", {% endfor %}]
const FILES = ["{% static "css/site.css" %}", "{% static "img/favicon.svg" %}"]

self.addEventListener("install", (event) => {
  event.waitUntil(caches.open(KEPT).then((cache) => cache.addAll([...PAGES, ...FILES])))
})

self.addEventListener("activate", (event) => {
  const old = (name) => name.startsWith("offline ") && name !== KEPT
  event.waitUntil(caches.keys().then((names) => Promise.all(names.filter(old).map((name) => caches.delete(name)))))
})

self.addEventListener("fetch", (event) => {
  const { request } = event
  const { pathname } = new URL(request.url)
  if (request.mode === "navigate") event.respondWith(fetch(request).catch(() => offline(pathname)))
  else if (FILES.includes(pathname)) event.respondWith(fetch(request).catch(() => caches.match(pathname)))
})

function offline(pathname) {
  const named = PAGES.find((page) => pathname.startsWith(page.replace(/offline\/$/, "")) && page !== "/offline/")
  return caches.match(named ?? "/offline/")
}
