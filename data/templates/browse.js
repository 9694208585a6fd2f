"use strict";
// Filters the items, and searches all rows if the page shows only some; without it the page shows its items.
(function () {
  const form = document.querySelector(".browse");
  if (!form) return;
  const items = Array.from(document.querySelectorAll(".item"));
  const texts = items.map((item) => item.textContent.toLowerCase());
  const groups = items.map((item) => JSON.parse(item.dataset.groups));
  const output = form.querySelector("output");
  const choices = Array.from(form.querySelectorAll("select"));
  const search = form.querySelector("input");
  const packed = document.querySelector("#all-rows");
  const found = document.querySelector(".found");
  const step = 50;
  let rows = null, hits = [], listed = 0, timer = 0;

  async function unpack() {
    const bytes = Uint8Array.from(atob(packed.content.textContent), (each) => each.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const lines = (await new Response(stream).text()).split("\n");
    return { lines: lines, lower: lines.map((line) => line.toLowerCase()) };
  }
  function listMore() {
    const headings = JSON.parse(packed.dataset.headings);
    const list = found.querySelector("ol");
    hits.slice(listed, listed + step).forEach(function (at) {
      const values = rows.lines[at].split("\t");
      const entry = document.createElement("li"), shown = document.createElement("dl");
      headings.forEach(function (heading, place) {
        const name = document.createElement("dt"), value = document.createElement("dd");
        name.textContent = heading;
        value.textContent = values[place] || "\u2013";
        value.dir = "auto";
        shown.append(name, value);
      });
      entry.append(shown);
      list.append(entry);
    });
    listed = Math.min(hits.length, listed + step);
    found.querySelector("button").hidden = listed === hits.length;
  }
  async function filter() {
    const words = search.value.toLowerCase().trim();
    const wanted = choices.filter((choice) => choice.value !== "");
    let shown = 0;
    items.forEach(function (item, at) {
      const fits = wanted.every((choice) => groups[at][choice.name].includes(choice.value)) && texts[at].includes(words);
      item.hidden = !fits;
      shown += fits ? 1 : 0;
    });
    output.textContent = shown + " of " + items.length + (packed ? " on this page" : " shown");
    if (!packed) return;
    found.hidden = !words && !wanted.length;
    if (found.hidden) return;
    rows = rows || (await unpack());
    const first = JSON.parse(packed.dataset.headings).length;
    const filters = JSON.parse(packed.dataset.filters);
    const tests = wanted.map((choice) => [first + filters.indexOf(choice.name), choice.value]);
    hits = [];
    rows.lower.forEach(function (line, at) {
      if (!line.includes(words)) return;
      const values = tests.length ? rows.lines[at].split("\t") : [];
      if (tests.every(([place, value]) => place < first || values[place].split("\u001f").includes(value))) hits.push(at);
    });
    listed = 0;
    found.querySelector("ol").textContent = "";
    listMore();
    output.textContent += "; " + hits.length.toLocaleString("en") + " of " + rows.lines.length.toLocaleString("en") + " rows found, listed first";
  }
  form.hidden = false;
  form.addEventListener("input", function () {
    clearTimeout(timer);
    timer = setTimeout(filter, packed ? 200 : 0);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  if (found) found.querySelector("button").addEventListener("click", listMore);
  filter();
})();
