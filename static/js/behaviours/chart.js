// table[data-chart]: draws the table's figures above it. The first column is the axis, each further column a series; a
// cell's number is its data-value, else its text; an empty cell is a gap. What a reader is told is the cell's own text.
// The library is fetched when the first chart comes near the window, and on no other page.
const COLOURS = ["--chart-1", "--chart-2", "--chart-3", "--chart-4"]
const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3]]
const POINTS = ["circle", "rect", "triangle", "rectRot"]
const dark = matchMedia("(prefers-color-scheme: dark)")
const still = matchMedia("(prefers-reduced-motion: reduce)")
const drawn = new Map()

const near = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue
    near.unobserve(target)
    draw(target)
  }
}, { rootMargin: "200px" })

find(document)
document.addEventListener("htmx:load", ({ target }) => find(target))
dark.addEventListener("change", redraw)
new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] })

function find(root) {
  for (const chart of root.querySelectorAll(".chart")) if (!drawn.has(chart)) near.observe(chart)
}

function redraw() {
  for (const [chart, instance] of [...drawn]) {
    instance.destroy()
    drawn.delete(chart)
    if (chart.isConnected) draw(chart)
  }
}

async function draw(chart) {
  const table = chart.querySelector("table[data-chart]")
  const canvas = chart.querySelector("canvas")
  try {
    if (!window.Chart) await import(chart.dataset.library)
    drawn.set(chart, new window.Chart(canvas, settings(table)))
    chart.dataset.state = "drawn"
  } catch (error) {
    chart.dataset.state = "failed" // the table shows the same figures
    chart.querySelector("details").open = true
    console.error(error)
  }
}

function settings(table) {
  const { chart: type, unit = "", x = "category", stacked, xUnit = "" } = table.dataset
  const look = getComputedStyle(table)
  const token = (name) => look.getPropertyValue(name).trim()
  const rows = [...table.tBodies].flatMap((body) => [...body.rows])
  const heads = [...table.tHead.rows[0].cells].map((cell) => text(cell))
  const stepped = "stepped" in table.dataset
  // What the last row says still holds: the page may be older than the day.
  if (x === "date" && "untilNow" in table.dataset && rows.length) rows.push(rows.at(-1))
  const instant = (row, index) => index && row === rows[index - 1] ? Date.now() : place(row, x)
  const series = heads.slice(1).map((label, index) => {
    const colour = token(COLOURS[index % COLOURS.length])
    return {
      label,
      data: rows.map((row, at) => ({ x: instant(row, at), y: value(row.cells[index + 1]) })),
      said: rows.map((row) => text(row.cells[index + 1])),
      stepped: stepped && "before", // a value holds until the next one
      borderColor: colour,
      backgroundColor: type === "bar" ? colour : token("--surface"),
      borderDash: type === "line" ? DASHES[index % DASHES.length] : [],
      borderWidth: type === "line" ? 2 : 0,
      pointStyle: POINTS[index % POINTS.length],
      pointRadius: rows.length > 40 ? 0 : 3,
      pointHitRadius: 12,
      spanGaps: false,
      maxBarThickness: 48,
    }
  })
  const font = { family: look.fontFamily, size: parseFloat(look.fontSize) * 0.87 }
  const muted = token("--muted")
  const grid = { color: token("--line"), tickColor: token("--line") }
  // A date is written as its row writes it, this day as the page's zone has it.
  const today = () => new Intl.DateTimeFormat("sv-SE", { timeZone: table.dataset.zone }).format(Date.now())
  const dates = new Map(rows.map((row) => [place(row, x), text(row.cells[0])]))
  const said = (at) => dates.get(at) ?? today()
  const numbers = new Intl.NumberFormat(document.documentElement.lang, { maximumFractionDigits: 4 })
  const priced = /^\D?\D?[¥$]$/.test(unit)
  const figure = (number) => priced ? unit + numbers.format(number) : join(numbers.format(number), unit)
  return {
    type,
    data: { labels: x === "category" ? rows.map((row) => text(row.cells[0])) : undefined, datasets: series },
    options: {
      responsive: true,
      maintainAspectRatio: false,
      animation: still.matches ? false : { duration: 200 },
      interaction: { mode: "index", intersect: false },
      locale: document.documentElement.lang,
      color: muted,
      font,
      scales: {
        x: {
          type: x === "category" ? "category" : "linear",
          stacked: stacked !== undefined,
          grid: { ...grid, display: false },
          border: { color: token("--line-strong") },
          ticks: { color: muted, font, maxRotation: 0, autoSkip: x !== "date", autoSkipPadding: 16, ...tick(x, xUnit, numbers, said) },
          ...(x === "category" ? {} : { bounds: "data" }),
          ...(x === "date" ? { afterBuildTicks: (axis) => { axis.ticks = known(rows.map(instant), axis) } } : {}),
        },
        y: {
          stacked: stacked !== undefined,
          beginAtZero: true,
          suggestedMax: table.dataset.yMax ? Number(table.dataset.yMax) : undefined,
          grid,
          border: { display: false },
          ticks: { color: muted, font, maxTicksLimit: 6, callback: figure },
        },
      },
      plugins: {
        legend: {
          display: series.length > 1,
          position: "bottom",
          labels: { color: token("--ink"), font, usePointStyle: true, boxHeight: 7 },
        },
        tooltip: {
          backgroundColor: token("--ink"),
          titleColor: token("--ground"),
          bodyColor: token("--ground"),
          titleFont: { ...font, weight: 600 },
          bodyFont: font,
          cornerRadius: 4,
          padding: 10,
          usePointStyle: true,
          callbacks: {
            title: (items) => items.length ? text(rows[items[0].dataIndex].cells[0]) : "",
            label: ({ dataset, dataIndex }) => `${dataset.label}  ${dataset.said[dataIndex]}`,
          },
        },
      },
    },
  }
}

// Where a row stands on the axis: its order, a number, or an instant (data-x on the row).
function place(row, x) {
  const at = row.dataset.x ?? text(row.cells[0])
  return x === "category" ? text(row.cells[0]) : x === "date" ? Date.parse(at) : Number(at)
}

// Dates are marked where something is known, not at even distances; the last always, the others where there is room.
function known(instants, axis) {
  const room = (axis.max - axis.min) * (120 / axis.chart.width)
  const last = instants.at(-1)
  const kept = []
  for (const at of instants) if (last - at >= room && !(at - kept.at(-1) < room)) kept.push(at)
  return [...kept, last].map((value) => ({ value }))
}

function value(cell) {
  const said = cell?.dataset.value ?? cell?.textContent.replace(/[^\d.\-−]/g, "").replace("−", "-")
  return said === undefined || said === "" || Number.isNaN(Number(said)) ? null : Number(said)
}

function text(cell) {
  return cell?.textContent.replace(/\s+/g, " ").trim() ?? ""
}

function tick(x, unit, numbers, said) {
  if (x === "date") return { callback: said }
  return x === "number" ? { callback: (number) => join(numbers.format(number), unit) } : {}
}

function join(number, unit) {
  return unit === "%" ? number + unit : `${number} ${unit}`.trim()
}
