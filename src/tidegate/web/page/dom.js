// Elements by plain functions. Text enters as text nodes only: nothing here parses HTML, and styles go through the
// CSSOM, so the content security policy needs no exception.

const SVG = "http://www.w3.org/2000/svg";
const HANDLERS = [
  "onclick", "oninput", "onchange", "onsubmit", "onkeydown", "onpointermove", "onpointerleave", "onclose", "ontoggle",
];

/** An HTML element. Properties: `on...` are handlers, `style` is an object of CSS properties, others are attributes. */
export const h = (tag, props, ...children) => build(document.createElement(tag), props, children);

/** An SVG element, with the same properties. */
export const s = (tag, props, ...children) => build(document.createElementNS(SVG, tag), props, children);

function build(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node[name] = value;
    else if (name === "style") for (const [key, text] of Object.entries(value)) node.style.setProperty(key, text);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
  return node;
}

/** Make the children of `root` equal to `fresh`. Nodes that stay keep their focus, their scroll and what was typed. */
export function show(root, fresh) {
  const holder = document.createElement(root.nodeName);
  holder.append(...[fresh].flat(Infinity).filter(Boolean));
  children(root, holder);
}

function morph(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !(name === "open" || name === "style")) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (name !== "style" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.style.cssText !== fresh.style.cssText) old.style.cssText = fresh.style.cssText;
  for (const name of HANDLERS) if (old[name] !== fresh[name]) old[name] = fresh[name];
  if (old.nodeName === "PROGRESS" && fresh.hasAttribute("value")) old.value = fresh.value;
  if (old.type === "checkbox" && old.checked !== fresh.checked) old.checked = fresh.checked;
  children(old, fresh);
}

function children(old, fresh) {
  const keyed = new Map();
  for (const each of old.children) if (each.dataset.key) keyed.set(each.dataset.key, each);
  let place = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const key = wanted.dataset?.key;
    const known = key ? keyed.get(key) : place && !place.dataset?.key ? place : null;
    if (known && known.nodeName === wanted.nodeName) {
      if (known === place) place = place.nextSibling;
      else old.insertBefore(known, place);
      morph(known, wanted);
    } else {
      old.insertBefore(wanted, place);
    }
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

/** Say it to a screen reader, once, when it has time. */
export function tell(text) {
  const region = document.getElementById("said");
  if (region.textContent !== text) region.textContent = text;
}

/** A place of the page as the part of an address behind `#`. */
export const at = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;
