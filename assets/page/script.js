// Sorting and filtering. The page is complete without this script; it reads only the page itself.
"use strict";

const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

function value(row, column, kind) {
  const cell = row.cells[column];
  const text = (cell.dataset.value ?? cell.textContent).trim();
  return kind === "number" ? (text === "" ? NaN : Number(text)) : text;
}

// What was not computed stays last in both directions.
function compare(a, b, kind, sign) {
  if (kind !== "number") return sign * collator.compare(a, b);
  if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
  return sign * (a - b);
}

function sortBy(head) {
  const table = head.closest("table");
  const kind = head.dataset.kind;
  const now = head.getAttribute("aria-sort");
  const first = kind === "number" ? "descending" : "ascending";
  const other = kind === "number" ? "ascending" : "descending";
  const next = now === first ? other : first;
  for (const each of table.tHead.rows[0].cells) each.setAttribute("aria-sort", "none");
  head.setAttribute("aria-sort", next);
  const sign = next === "ascending" ? 1 : -1;
  // A body is a row and its controls: they move together, and controls are never ranked.
  const keyed = [...table.tBodies].map((body) => [value(body.rows[0], head.cellIndex, kind), body]);
  keyed.sort((a, b) => compare(a[0], b[0], kind, sign));
  table.append(...keyed.map(([, body]) => body));
}

function filterRows(input, bodies) {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const { body, text } of bodies) {
    body.hidden = !words.every((word) => text.includes(word));
    shown += !body.hidden && !body.rows[0].classList.contains("control");
  }
  for (const family of document.querySelectorAll(".family")) {
    family.hidden = !family.querySelector("tbody:not([hidden])");
  }
  const count = document.getElementById("count");
  const all = count.dataset.rows;
  count.textContent = words.length ? `${shown} of ${all} rows` : `${all} rows`;
  document.querySelector(".nothing").hidden = shown > 0;
}

for (const button of document.querySelectorAll("th[data-kind] button")) {
  button.addEventListener("click", () => sortBy(button.closest("th")));
}

const input = document.getElementById("filter");
if (input) {
  const bodies = [...document.querySelectorAll(".board tbody")].map((body) => {
    const family = body.closest(".family").querySelector("h2").textContent;
    return { body, text: `${family} ${body.rows[0].textContent}`.toLowerCase() };
  });
  input.closest(".filter").hidden = false;
  input.addEventListener("input", () => filterRows(input, bodies));
}
