/** Settings that are kept between visits, if the browser allows it. */

export function remember(name, value) {
  try {
    localStorage.setItem(`calque.${name}`, value);
  } catch {
    // a browser may refuse it to files; the setting then lasts as long as the page
  }
}

export function recall(name) {
  try {
    return localStorage.getItem(`calque.${name}`);
  } catch {
    return null;
  }
}
