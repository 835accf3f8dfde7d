/* What the pages of plans and of reports share: elements, numbers, light and dark. Names are set as text, never as markup. */
const common = (() => {
  "use strict";
  function put(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name === "text") element.textContent = value;
      else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    for (const child of children) if (child) element.append(child);
    return element;
  }
  const el = (tag, attributes, ...children) => put(document.createElement(tag), attributes, children);
  const svg = (tag, attributes, ...children) => put(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
  const many = (number) => number.toLocaleString("en");
  /** A share as whole percents, halves upward, as printed reports have it. */
  function percent(part, whole) {
    const share = 100 * part / (whole || 1);
    return `${share >= 1 || !part ? Math.floor(share + 0.5) : +share.toPrecision(1)} %`;
  }
  const paint = (night) => { document.documentElement.dataset.theme = night ? "dark" : "light"; };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  paint(dark.matches);
  dark.addEventListener("change", () => paint(dark.matches));
  const turn = () => paint(document.documentElement.dataset.theme !== "dark");
  document.addEventListener("keydown", (event) => {
    const typed = event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input[type=search], select, textarea, dialog");
    if (event.key === "t" && !typed) turn();
  });
  /** The button between light and dark; the key t does the same. */
  const themeButton = () => el("button", { type: "button", text: "◐", title: "Light or dark (t)", "aria-label": "Light or dark", onclick: turn });
  return { el, svg, many, percent, themeButton };
})();
