// Long tables: rows come from JSON, some at a time; a field searches them.

const PAGE = 40;

function longTable(holder) {
  const table = document.getElementById(holder.dataset.rowsOf);
  const rows = JSON.parse(holder.textContent);
  table.long = { table, rows, shown: PAGE, wanted: "" };
  fill(table.long);
}

const textOf = (cell) => (Array.isArray(cell) ? cell[0] : cell);
const keyOf = (cell) => (Array.isArray(cell) ? cell[1] : cell);

function cellOf(cell, first) {
  const made = document.createElement(first ? "th" : "td");
  if (first) made.scope = "row";
  const parts = textOf(cell).split("/");
  made.append(parts[0]);
  for (const part of parts.slice(1)) made.append("/", document.createElement("wbr"), part);
  if (typeof keyOf(cell) === "number") made.className = "number";
  else if (keyOf(cell) === null) made.className = "none";
  return made;
}

function fill(long) {
  const found = long.rows.filter((row) =>
    row.some((cell) => textOf(cell).toLowerCase().includes(long.wanted)),
  );
  const shown = found.slice(0, long.shown).map((row) => {
    const line = document.createElement("tr");
    line.append(...row.map((cell, place) => cellOf(cell, place === 0)));
    return line;
  });
  long.table.tBodies[0].replaceChildren(...shown);
  const told = document.getElementById(`${long.table.id}-shown`);
  told.textContent = `${shown.length.toLocaleString("en")} of ${found.length.toLocaleString("en")} rows`;
  const more = document.querySelector(`[data-more="${long.table.id}"]`);
  more.hidden = shown.length === found.length;
}

function sortLong(header, long) {
  const column = [...header.parentNode.children].indexOf(header);
  const numeric = long.rows.some((row) => typeof keyOf(row[column]) === "number");
  const before = header.getAttribute("aria-sort");
  const falling = before ? before === "ascending" : numeric;
  const compare = (a, b) => (numeric ? a - b : a.localeCompare(b));
  long.rows.sort((one, other) => {
    const [a, b] = [keyOf(one[column]), keyOf(other[column])];
    if (a === null || b === null) return (a === null) - (b === null);
    return falling ? compare(b, a) : compare(a, b);
  });
  for (const other of long.table.querySelectorAll("[aria-sort]")) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", falling ? "descending" : "ascending");
  fill(long);
}

for (const holder of document.querySelectorAll("script[data-rows-of]")) longTable(holder);
for (const field of document.querySelectorAll("input[data-searches]")) {
  const { long } = document.getElementById(field.dataset.searches);
  field.addEventListener("input", () => {
    long.wanted = field.value.toLowerCase();
    long.shown = PAGE;
    fill(long);
  });
}
for (const button of document.querySelectorAll("button[data-more]")) {
  const { long } = document.getElementById(button.dataset.more);
  button.addEventListener("click", () => {
    long.shown += 5 * PAGE;
    fill(long);
  });
}
