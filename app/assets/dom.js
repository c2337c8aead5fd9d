/* Building elements. Text goes in as text, never as HTML: run names are whatever people typed. */
(() => {
  const ds = (window.depthscope = window.depthscope || {});
  const SVG = "http://www.w3.org/2000/svg";

  /** Make an element: make("button", {class: "run", "data-run": id, onclick: f}, "text", child, ...). */
  ds.make = (tag, attributes = {}, ...children) => {
    const element = tag === "svg" || tag === "line" ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value === null || value === undefined || value === false) continue;
      if (name === "style") for (const [key, entry] of Object.entries(value)) element.style.setProperty(key, entry);
      else element.setAttribute(name, value === true ? "" : String(value));
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  };

  /** Replace an element's children, but only when the new ones differ: nothing flickers or loses focus. */
  ds.fill = (element, parts) => {
    const children = parts.map((part) => (typeof part === "string" ? document.createTextNode(part) : part));
    const same = element.childNodes.length === children.length
      && children.every((child, i) => element.childNodes[i].isEqualNode(child));
    if (!same) element.replaceChildren(...children);
  };

  /** Build what the server handed over as data: Dash need not look at what never changes. */
  ds.buildStatic = () => {
    const built = (part) => (typeof part === "string" ? part : ds.make(part[0], part[1], ...part[2].map(built)));
    for (const element of document.querySelectorAll("[data-static]")) {
      element.append(...JSON.parse(element.dataset.static).map(built));
      element.removeAttribute("data-static");
    }
  };

  ds.icon = (name) => ds.make("span", { class: `icon icon-${name}`, "aria-hidden": "true" });

  /** The line sample of a run: its colour and its dash. */
  ds.lineSample = (run, width = 18) => {
    const line = ds.make("line", { x1: 0, y1: 2, x2: width, y2: 2, "stroke-width": 2, "stroke-dasharray": run.dash });
    line.style.stroke = ds.colour(run.slot);
    return ds.make("svg", { class: "sample", width, height: 4, "aria-hidden": "true" }, line);
  };

  /** Put text into a box of Dash: it belongs to React, which takes a value only with the event that typing makes. */
  ds.typeInto = (id, text) => {
    const box = document.getElementById(id);
    if (!box || box.value === text) return;
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(box, text);
    box.dispatchEvent(new Event("input", { bubbles: true }));
  };

  const component = (type, props) => ({ namespace: "dash_html_components", type, props });
  /** Tell the reader something in the corner, until it is closed or replaced. */
  ds.notify = (text) => {
    const close = component("Button", { children: "Close", type: "button", className: "button", "data-action": "close-toast" });
    window.dash_clientside.set_props("toast", { children: [component("Span", { children: text, className: "notice" }), close] });
  };
  ds.closeNotice = () => window.dash_clientside.set_props("toast", { children: [] });

  ds.colour = (slot) => `var(--run-${((slot - 1) % 8) + 1})`;

  /** Write a step for people: 600, 12,400. */
  ds.count = (value) => value.toLocaleString("en-US");
})();
