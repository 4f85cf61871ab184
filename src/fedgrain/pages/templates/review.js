"use strict";
const at = (id) => document.getElementById(id);
const [groups, picker, nameField, names] = ["groups", "picker", "name", "names"].map(at);
let picked = null; // the card whose picker is open
let offered = [];
let asking = 0;

async function ask(path, body) {
  const options = body === undefined ? {} : {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  };
  let reply;
  try {
    reply = await fetch(path, options);
  } catch {
    throw tell("fedgrain review has ended: nothing more is saved. Start it again with the same command.");
  }
  const content = await reply.json();
  if (!reply.ok) throw tell(content.problem);
  at("problem").textContent = "";
  return content;
}

function tell(problem) {
  at("problem").textContent = problem;
  return new Error(problem);
}

function say(text) {
  at("said").textContent = text;
}

function made(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
}

function button(text, label, className, act) {
  const element = made("button", className, text);
  element.type = "button";
  element.setAttribute("aria-label", label);
  element.addEventListener("click", act);
  return element;
}

const percent = (share) => `${Math.floor(100 * Number(share))} %`;

function card(item, place) {
  const element = made("div", "card");
  element.tabIndex = place ? -1 : 0;
  element.setAttribute("role", "group");
  element.dataset.row = item.row;
  element.dataset.proposal = item.proposal;
  const box = made("div", "picture");
  const image = made("img");
  image.src = `image/${item.row}`;
  image.alt = "";
  image.loading = "lazy";
  image.addEventListener("error", () => box.replaceChildren("This image cannot be read."));
  box.append(image);
  const about = made("p", "about");
  if (item.proposal) {
    about.append(made("b", "", item.proposal), ` ${percent(item.probability)}`);
    if (Number(item.guarantee) >= 0.5) about.append(`, guaranteed ${percent(item.guarantee)}`);
  } else {
    about.append("no proposal");
  }
  about.append(made("span", "file", item.path));
  const buttons = made("div", "buttons");
  const of = item.path;
  if (item.proposal) {
    buttons.append(button("Accept", `Accept ${item.proposal} for ${of}`, "yes", () => answer(element, "accept")));
  }
  buttons.append(button("Other…", `Pick another name for ${of}`, "", () => open(element, "")));
  buttons.append(button("Unsure", `Unsure about ${of}`, "", () => answer(element, "unsure")));
  element.append(box, made("p", "stamp"), about, buttons);
  show(element, item);
  return element;
}

function show(element, item) {
  const told = { accept: `✓ ${item.label}`, pick: `✎ ${item.label}`, unsure: "? unsure" }[item.answer] || "";
  if (item.answer) element.dataset.answer = item.answer;
  else delete element.dataset.answer;
  element.querySelector(".stamp").textContent = told;
  const asked = item.proposal ? `proposed ${item.proposal}, ${percent(item.probability)}` : "no proposal";
  element.setAttribute("aria-label", `${item.path}, labelled ${item.given}, ${asked}${told && `, answered ${told.slice(2)}`}`);
}

function section(group, number) {
  const element = made("section", "group");
  const heading = made("h2", "", group.proposal ? `${group.proposal}?` : group.given);
  heading.id = `group-${number}`;
  element.setAttribute("aria-labelledby", heading.id);
  const title = made("div", "title");
  const about = group.proposal ? `labelled ${group.given} so far` : "no proposal for this label";
  const more = group.left > group.items.length ? `, ${group.left} in all` : "";
  title.append(heading, made("span", "quiet", `${about}${more}`));
  if (group.proposal && group.items.length > 1) {
    title.append(button("Accept all shown", `Accept ${group.proposal} for all images shown in this group`, "all", () => acceptAll(element)));
  }
  const list = made("ul", "cards");
  for (const item of group.items) {
    const entry = made("li");
    entry.append(card(item, number || list.children.length));
    list.append(entry);
  }
  element.append(title, list);
  return element;
}

function count(numbers) {
  const { images, done, unsure, finer, corrected, leaves, agreed, asked, undoable } = numbers;
  at("done").textContent = `${done.toLocaleString("en")} of ${images.toLocaleString("en")} images done`;
  at("bar").max = images;
  at("bar").value = done;
  const right = asked ? ` The model was right in ${agreed} of ${asked} (${percent(agreed / asked)}).` : "";
  const parts = [`${finer} made finer`, corrected && `${corrected} corrected`, unsure && `${unsure} unsure`];
  const bought = `${parts.filter(Boolean).join(", ")}; ${leaves} more full labels.${right}`;
  at("bought").textContent = done ? bought : "Every answer is saved at once.";
  at("undo").disabled = !undoable;
}

async function load() {
  const state = await ask("state");
  count(state.numbers);
  groups.replaceChildren(...state.groups.map(section));
  at("after").hidden = state.groups.length > 0;
  if (!state.groups.length) finish("Every image has an answer. The manifest is ready for the next run.", true);
  const first = groups.querySelector(".card");
  if (first) focus(first);
}

function finish(text, all) {
  at("after").hidden = false;
  at("after-text").textContent = text;
  at("next").hidden = all;
}

const cards = () => [...groups.querySelectorAll(".card")];
const left = () => cards().filter((one) => !one.dataset.answer);

function focus(element) {
  for (const one of cards()) one.tabIndex = one === element ? 0 : -1;
  element.focus();
}

async function send(element, kind, label) {
  const reply = await ask("answer", { row: Number(element.dataset.row), answer: kind, label });
  show(element, reply.item);
  count(reply.numbers);
  return reply;
}

async function answer(element, kind, label) {
  if (element.dataset.answer || (kind === "accept" && !element.dataset.proposal)) return;
  const reply = await send(element, kind, label);
  say(`${kind === "unsure" ? "Unsure" : `Saved: ${reply.item.label}`}. ${reply.numbers.images - reply.numbers.done} left.`);
  onward(element);
}

function onward(element) {
  const all = cards();
  const after = all.slice(all.indexOf(element) + 1).find((one) => !one.dataset.answer) || left()[0];
  if (after) {
    focus(after);
  } else {
    finish("All of these are done.", false);
    at("next").focus();
  }
}

async function acceptAll(group) {
  const open = [...group.querySelectorAll(".card")].filter((one) => !one.dataset.answer);
  for (const element of open) await send(element, "accept");
  say(`${open.length} accepted.`);
  if (open.length) onward(open[open.length - 1]);
}

async function undo() {
  const reply = await ask("undo", {});
  count(reply.numbers);
  if (!reply.item) return;
  const element = groups.querySelector(`.card[data-row="${reply.item.row}"]`);
  say(`Undone: ${reply.item.path}.`);
  if (!element) return load();
  show(element, reply.item);
  at("after").hidden = true;
  focus(element);
}

// -- the picker ------------------------------------------------------------------------------------

function open(element, text) {
  picked = element;
  nameField.value = text;
  picker.showModal();
  nameField.focus();
  offer();
}

async function offer() {
  const number = ++asking;
  const query = new URLSearchParams({ text: nameField.value, row: picked.dataset.row });
  const reply = await ask(`nodes?${query}`);
  if (number !== asking) return; // a later letter has asked again
  offered = reply.nodes;
  names.replaceChildren(...offered.map((node, place) => {
    const entry = made("li", "", node.name);
    entry.id = `name-${place}`;
    entry.setAttribute("role", "option");
    const where = [node.above, node.below ? "" : "not below the given label"].filter(Boolean).join(" · ");
    if (where) entry.append(made("small", "", where));
    entry.addEventListener("click", () => take(place));
    return entry;
  }));
  nameField.setAttribute("aria-expanded", String(offered.length > 0));
  choose(0);
}

function choose(place) {
  [...names.children].forEach((entry, number) => entry.setAttribute("aria-selected", String(number === place)));
  const entry = names.children[place];
  if (entry) nameField.setAttribute("aria-activedescendant", entry.id);
  else nameField.removeAttribute("aria-activedescendant");
}

function chosen() {
  return [...names.children].findIndex((entry) => entry.getAttribute("aria-selected") === "true");
}

function take(place) {
  const node = offered[place];
  if (!node) return;
  const element = picked;
  picker.close();
  answer(element, node.label === element.dataset.proposal ? "accept" : "pick", node.label);
}

nameField.addEventListener("input", offer);
nameField.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && offered.length) {
    event.preventDefault();
    choose((chosen() + step + offered.length) % offered.length);
  } else if (event.key === "Enter") {
    event.preventDefault();
    take(chosen());
  }
});
picker.addEventListener("close", () => picked && focus(picked));

// -- keys on an image ------------------------------------------------------------------------------

function neighbour(element, key) {
  const all = cards();
  const place = all.indexOf(element);
  const steps = { ArrowRight: 1, ArrowLeft: -1 };
  if (key in steps) return all[place + steps[key]];
  const here = element.getBoundingClientRect();
  const down = key === "ArrowDown";
  const rows = all.map((one) => ({ one, box: one.getBoundingClientRect() }))
    .filter(({ box }) => (down ? box.top > here.top + 5 : box.top < here.top - 5));
  const far = ({ box }) => 4 * Math.abs(box.top - here.top) + Math.abs(box.left - here.left);
  return rows.sort((a, b) => far(a) - far(b))[0]?.one;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || picker.open) return;
  const element = event.target.closest?.(".card");
  if (event.key === "Backspace") {
    event.preventDefault();
    if (!at("undo").disabled) undo();
  } else if (!element || event.target !== element) {
    return;
  } else if (event.key.startsWith("Arrow")) {
    const other = neighbour(element, event.key);
    if (other) {
      event.preventDefault();
      focus(other);
    }
  } else if (event.key === "Enter") {
    event.preventDefault();
    answer(element, "accept");
  } else if (event.key === "?") {
    event.preventDefault();
    answer(element, "unsure");
  } else if (event.key.length === 1 && /[\p{L}\p{N}]/u.test(event.key) && !element.dataset.answer) {
    event.preventDefault();
    open(element, event.key);
  }
});

groups.addEventListener("focusin", (event) => {
  const element = event.target.closest(".card");
  if (element) for (const one of cards()) one.tabIndex = one === element ? 0 : -1;
});
at("undo").addEventListener("click", undo);
at("next").addEventListener("click", load);
load();
