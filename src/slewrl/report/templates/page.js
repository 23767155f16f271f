// Without this script the page is whole, but its tables stay as they are: the controls are made here.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  const value = (row, i) => row.cells[i].dataset.value ?? row.cells[i].textContent;
  const compare = (a, b) => {
    if (a === "" || b === "") return (a === "") - (b === "");
    const difference = Number(a) - Number(b);
    return Number.isNaN(difference) ? a.localeCompare(b) : difference;
  };
  heads.forEach((head, i) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const order = [...body.rows].sort((a, b) => {
        const [x, y] = [value(a, i), value(b, i)];
        return x === "" || y === "" ? compare(x, y) : (down ? -1 : 1) * compare(x, y);  // what is not known stays last
      });
      body.append(...order);
    });
  });
  const box = document.createElement("input");
  box.type = "search";
  box.placeholder = "Filter, e.g. " + table.dataset.example;
  box.setAttribute("aria-label", "Filter the rows of this table");
  box.addEventListener("input", () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of body.rows) row.hidden = !words.every(word => row.textContent.toLowerCase().includes(word));
  });
  table.parentElement.before(box);
}
