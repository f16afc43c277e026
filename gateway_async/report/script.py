"""The script of the page: sorts and filters tables that are complete without it."""

SCRIPT = """
"use strict";
for (const table of document.querySelectorAll("table.listing")) {
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const heads = Array.from(table.tHead.rows[0].cells);
  const tools = document.createElement("div");
  tools.className = "tools";

  const field = (text, input) => {
    const label = document.createElement("label");
    label.append(text, input);
    label.className = text.split(" ")[0].toLowerCase();
    tools.append(label);
    return input;
  };
  const search = field("Search", document.createElement("input"));
  search.type = "search";
  const kinds = field(table.dataset.kinds, document.createElement("select"));
  kinds.add(new Option("all", ""));
  for (const kind of new Set(rows.map(row => row.dataset.kind))) {
    kinds.add(new Option(kind.replaceAll("_", " "), kind));
  }
  const order = field("Sort by", document.createElement("select"));
  const shown = document.createElement("output");
  tools.append(shown);
  table.parentElement.before(tools);

  const texts = new Map(rows.map(row => [row, row.textContent.toLowerCase()]));
  const filter = () => {
    const words = search.value.toLowerCase().split(" ").filter(Boolean);
    let count = 0;
    for (const row of rows) {
      const fits = (!kinds.value || row.dataset.kind === kinds.value)
        && words.every(word => texts.get(row).includes(word));
      row.hidden = !fits;
      count += fits;
    }
    shown.value = `${count} of ${rows.length} shown`;
  };
  search.addEventListener("input", filter);
  kinds.addEventListener("change", filter);

  const collator = new Intl.Collator(undefined, { numeric: true });
  const unsort = () => {
    body.append(...rows);
    heads.forEach(head => head.removeAttribute("aria-sort"));
  };
  const sort = (column, descending) => {
    const compare = heads[column].className === "number"
      ? (one, other) => Number(one) - Number(other)
      : collator.compare;
    const value = row => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const sorted = rows.map(row => [value(row), row]);
    sorted.sort(([one], [other]) => compare(one, other) * (descending ? -1 : 1));
    body.append(...sorted.map(([, row]) => row));
    heads.forEach((head, number) => {
      if (number !== column) head.removeAttribute("aria-sort");
      else head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    });
    order.value = String(column);
  };
  order.add(new Option("as listed", ""));
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    order.add(new Option(head.textContent, String(column)));
    head.replaceChildren(button);
    const isUp = () => head.getAttribute("aria-sort") === "ascending";
    button.addEventListener("click", () => sort(column, isUp()));
  });
  order.addEventListener("change", () => {
    if (order.value) sort(Number(order.value), false);
    else unsort();
  });
  filter();
}
"""
