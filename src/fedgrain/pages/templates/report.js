"use strict";
// Draws the plots once they are visible, sorts tables, switches views and colours.

function draw(place) {
  if (place.dataset.drawn) return;
  place.dataset.drawn = "yes";
  const figure = JSON.parse(document.querySelector(`[data-for="${place.id}"]`).textContent);
  const options = { responsive: true, displaylogo: false, displayModeBar: false };
  Plotly.newPlot(place, figure.data, figure.layout, options);
  place.colourings = figure.colourings;
}

// One plot at a time, so that the page can be read and scrolled meanwhile.
function drawVisible() {
  const waits = (place) => !place.dataset.drawn && !place.closest("[hidden]");
  const next = [...document.querySelectorAll(".plot")].find(waits);
  if (!next) return;
  draw(next);
  setTimeout(drawVisible);
}

function choose(select) {
  for (const view of document.querySelectorAll(".view")) {
    if (view.dataset.of === select.dataset.shows) {
      view.hidden = view.dataset.number !== select.value;
    }
  }
  setTimeout(drawVisible);
}

function sortBy(header) {
  const table = header.closest("table");
  if (table.long) {
    sortLong(header, table.long);
    return;
  }
  const column = [...header.parentNode.children].indexOf(header);
  const numeric = [...table.tBodies[0].rows].some((row) => row.cells[column].matches(".number"));
  const before = header.getAttribute("aria-sort");
  const falling = before ? before === "ascending" : numeric; // of numbers the largest first
  const key = (row) => row.cells[column].dataset.key;
  const compare = (a, b) => (numeric ? Number(a) - Number(b) : a.localeCompare(b));
  const rows = [...table.tBodies[0].rows];
  rows.sort((one, other) => {
    const [a, b] = [key(one), key(other)];
    if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
    return falling ? compare(b, a) : compare(a, b);
  });
  for (const other of table.querySelectorAll("[aria-sort]")) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", falling ? "descending" : "ascending");
  table.tBodies[0].append(...rows);
}

function colour(button) {
  const place = document.getElementById("sunburst");
  const chosen = place.colourings[Number(button.dataset.number)];
  for (const other of document.querySelectorAll(".colouring")) {
    other.setAttribute("aria-pressed", String(other === button));
  }
  Plotly.restyle(place, {
    "marker.colors": [chosen.colors],
    "marker.cmin": chosen.cmin,
    "marker.cmax": chosen.cmax,
    "marker.colorbar.title.text": chosen.name,
  });
}

for (const button of document.querySelectorAll("table.sortable th button")) {
  button.addEventListener("click", () => sortBy(button.closest("th")));
}
for (const button of document.querySelectorAll(".colouring")) {
  button.addEventListener("click", () => colour(button));
}
for (const select of document.querySelectorAll("select[data-shows]")) {
  select.addEventListener("change", () => choose(select));
  choose(select);
}
setTimeout(drawVisible);
