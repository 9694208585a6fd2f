"use strict";
// One row at a time; a decision counts as made when the server says that it is saved.
(function () {
  const one = (selector) => document.querySelector(selector);
  const all = (selector) => Array.from(document.querySelectorAll(selector));
  const warning = one(".alert");
  const groups = all("fieldset");
  const texts = all("label.text");
  const typingPause = 500; // milliseconds without a key after which a text is saved
  let row = null;
  let waiting = Promise.resolve();

  async function send(name, body) {
    const options = body && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
    let reply;
    try {
      reply = await fetch(name, options || {});
    } catch (error) {
      throw new Error("Not saved: the command does not answer. Start it again and open the address that it prints; all that was saved before is kept.");
    }
    const found = await reply.json();
    if (!reply.ok) throw new Error(found.error);
    return found;
  }

  function say(message) {
    warning.hidden = message === "";
    warning.querySelector("p").textContent = message;
  }

  // requests go out one after another; what was meant for a row that is no longer shown is left out
  function queue(step) {
    const key = row && row.key;
    waiting = waiting.then(() => (row && row.key) === key && step()).then(() => say(""), (error) => say(error.message));
  }

  function show(found) {
    const isSame = row !== null && row.key === found.key;
    row = found;
    if (!isSame) showTexts();
    groups.forEach((group) => Array.from(group.querySelectorAll("button")).forEach((button) =>
      button.setAttribute("aria-pressed", String(row.answers[group.dataset.question] === button.dataset.value))));
    texts.forEach(function (label) {
      const area = label.querySelector("textarea");
      label.hidden = Boolean(label.dataset.with) && row.answers[label.dataset.with] !== label.dataset.answer;
      if (!isSame || area !== document.activeElement) area.value = row.answers[label.dataset.question] || "";
    });
    one("progress").max = row.total;
    one("progress").value = row.done;
    one("output").textContent = "row " + (row.at + 1) + " of " + row.total + ", " + row.done + " decided"
      + (row.done === row.total ? ": all of them; finish, or look again" : "");
  }

  function showTexts() {
    const shown = one(".shown");
    shown.querySelector("dl").replaceChildren(...row.shown.flatMap(function (pair) {
      const term = document.createElement("dt");
      const text = document.createElement("dd");
      const inner = document.createElement("bdi");
      inner.dir = "auto";
      term.textContent = pair[0];
      inner.append(...pair[1].split(/(?<=\n)/).map(function (line) {
        // what runs over stands under its text, not under its name
        const part = document.createElement("span");
        part.textContent = line;
        part.style.setProperty("--indent", line.match(/^\s*(\S.{0,20}?\s{2,})?/)[0].length + "ch");
        return part;
      }));
      text.append(inner);
      return [term, text];
    }));
    shown.classList.toggle("long", row.shown.length === 1);
    shown.scrollTop = 0;
    if (document.activeElement.tagName === "TEXTAREA") document.activeElement.blur();
  }

  async function save(question, value, stays) {
    show(await send("decide", { key: row.key, answers: { ...row.answers, [question]: value }, stays: stays }));
  }

  async function choose(button) {
    const question = button.closest("fieldset").dataset.question;
    const key = row.key;
    await save(question, button.dataset.value, false);
    const text = texts.find((label) => label.dataset.with === question && !label.hidden);
    if (text && row.key === key) text.querySelector("textarea").focus();
  }

  function saveText(label) {
    const value = label.querySelector("textarea").value;
    clearTimeout(Number(label.dataset.timer));
    queue(async () => value !== (row.answers[label.dataset.question] || "") && save(label.dataset.question, value, true));
  }

  function press(key) {
    // which question a key answers is known only when the answers before it are saved
    queue(async function () {
      const group = groups.find((each) => !row.answers[each.dataset.question]) || groups[groups.length - 1];
      const button = Array.from(group.querySelectorAll("button")).find((each) => each.dataset.key === key);
      if (button) await choose(button);
    });
  }

  function move(by) {
    queue(async () => show(await send("row?at=" + Math.min(Math.max(row.at + by, 0), row.total - 1))));
  }

  const actions = {
    open: () => queue(async () => show(await send("row"))),
    undo: () => queue(async () => show(await send("undo", {}))),
    finish: () => queue(async function () {
      if (row.done < row.total && !window.confirm((row.total - row.done) + " rows are open. Finish all the same?")) return;
      await send("finish", {});
      one(".work").hidden = true;
      one(".finished").hidden = false;
      row = null;
    }),
  };

  groups.forEach((group) => group.addEventListener("click", function (event) {
    const button = event.target.closest("button");
    if (button && row) queue(() => choose(button));
  }));
  texts.forEach(function (label) {
    label.addEventListener("change", () => row && saveText(label));
    label.addEventListener("input", function () {
      clearTimeout(Number(label.dataset.timer));
      label.dataset.timer = String(setTimeout(() => row && saveText(label), typingPause));
    });
    label.addEventListener("keydown", function (event) {
      if (event.key === "Escape") event.target.blur();
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || !row) return;
      saveText(label);
      actions.open();
    });
  });
  all("[data-move]").forEach((button) => button.addEventListener("click", () => row && move(Number(button.dataset.move))));
  all("[data-action]").forEach((button) => button.addEventListener("click", () => row && actions[button.dataset.action]()));
  one("form").addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("keydown", function (event) {
    if (!row || event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.target.tagName === "TEXTAREA") return;
    if (event.key === "ArrowLeft") move(-1);
    else if (event.key === "ArrowRight") move(1);
    else if (event.key === "u") actions.undo();
    else press(event.key.toLowerCase());
  });
  actions.open();
})();
