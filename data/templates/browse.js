"use strict";
// Filters the items; without it the page shows them all.
(function () {
  const form = document.querySelector(".browse");
  if (!form) return;
  const items = Array.from(document.querySelectorAll(".item"));
  const texts = items.map((item) => item.textContent.toLowerCase());
  const told = form.querySelector("output");
  const choices = Array.from(form.querySelectorAll("select"));
  const search = form.querySelector("input");
  function filter() {
    const words = search.value.toLowerCase().trim();
    const wanted = choices.filter((choice) => choice.value !== "");
    let shown = 0;
    items.forEach(function (item, at) {
      const given = JSON.parse(item.dataset.groups);
      const fits = wanted.every((choice) => given[choice.name].includes(choice.value)) && texts[at].includes(words);
      item.hidden = !fits;
      shown += fits ? 1 : 0;
    });
    told.textContent = shown + " of " + items.length + " shown";
  }
  form.hidden = false;
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  filter();
})();
