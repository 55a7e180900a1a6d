/** Elements. Whatever is given as a child is text, never markup. */

const SVG = "http://www.w3.org/2000/svg";
let ids = 0;

/** An HTML element: h("p", {class: "note", onclick: f, style: {width: "3em"}}, "text", child, [more children]). */
export function h(tag, attributes = {}, ...children) {
  return build(document.createElement(tag), attributes, children);
}

/** An SVG element, with the same arguments. */
export function s(tag, attributes = {}, ...children) {
  return build(document.createElementNS(SVG, tag), attributes, children);
}

/** An id that no other element of the page has. */
export function uniqueId(prefix) {
  ids += 1;
  return `${prefix}-${ids}`;
}

/** Replaces everything inside an element. */
export function fill(element, ...children) {
  element.replaceChildren(...kept(children));
  return element;
}

/** Calls `callback` at every event of this name on the document, for as long as the element is on the page. */
export function listen(element, name, callback) {
  const handler = (event) => {
    if (element.isConnected) callback(event);
    else document.removeEventListener(name, handler);
  };
  document.addEventListener(name, handler);
}

/** Calls `callback(width)` whenever the width of an element changes, first as soon as it is laid out. */
export function onWidth(element, callback) {
  let last = -1;
  const observer = new ResizeObserver((entries) => {
    const width = Math.floor(entries[entries.length - 1].contentRect.width);
    if (!element.isConnected) observer.disconnect();
    else if (width > 0 && width !== last) {
      last = width;
      callback(width);
    }
  });
  observer.observe(element);
}

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [property, text] of Object.entries(value)) element.style.setProperty(property, text);
    else if (name.startsWith("on")) throw new TypeError(`${name} is not a function`);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...kept(children));
  return element;
}

function kept(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}
