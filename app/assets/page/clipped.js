/* Texts without room for all of themselves: such a text can be focused and opens in full by click, Enter or space. */
(() => {
  const ds = (window.depthscope = window.depthscope || {});
  const MAY_BE_CUT = ".panel-head .note, .key-row .note, .panel-head .warning, .panel-head h2, .head-note, .sentence";
  let waiting = false;
  let opened = null;

  const mark = () => {
    waiting = false;
    const all = [...document.querySelectorAll(MAY_BE_CUT)].filter((element) => element.clientWidth > 0);
    const cut = all.map((element) => element.scrollWidth > element.clientWidth + 1);
    all.forEach((element, i) => {
      if (cut[i] === element.hasAttribute("data-clipped")) return;
      if (cut[i]) {
        for (const [name, value] of [["data-clipped", ""], ["tabindex", "0"], ["role", "button"], ["aria-expanded", "false"]])
          element.setAttribute(name, value);
        if (!element.title) { element.title = element.textContent; element.dataset.titled = ""; }
      } else {
        for (const name of ["data-clipped", "tabindex", "role", "aria-expanded"]) element.removeAttribute(name);
        if ("titled" in element.dataset) { element.removeAttribute("title"); delete element.dataset.titled; }
      }
    });
    for (const element of document.querySelectorAll("[data-clipped][data-titled]")) element.title = element.textContent;
  };

  /** Look, after the next layout, which texts are cut. */
  ds.markClipped = () => {
    if (waiting) return;
    waiting = true;
    window.requestAnimationFrame(mark);
  };

  const box = () => document.getElementById("full-text");
  const close = () => {
    if (!opened) return;
    opened.setAttribute("aria-expanded", "false");
    opened = null;
    box().hidden = true;
  };
  const open = (element) => {
    const own = element.title && element.title !== element.textContent ? element.title.split("\n") : [];
    const more = own.filter((line) => line && !element.textContent.includes(line));
    ds.fill(box(), [element.textContent, ...more].map((line) => ds.make("p", {}, line)));
    box().hidden = false;
    const place = element.getBoundingClientRect();
    box().style.top = `${place.bottom + 4}px`;
    box().style.left = `${Math.max(8, Math.min(place.left, window.innerWidth - box().offsetWidth - 8))}px`;
    element.setAttribute("aria-expanded", "true");
    opened = element;
  };
  const toggle = (element) => {
    const again = element === opened;
    close();
    if (!again) open(element);
  };

  document.addEventListener("click", (event) => {
    const element = event.target.closest?.("[data-clipped]");
    if (element) toggle(element);
    else if (!event.target.closest?.("#full-text")) close();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return close();
    const element = event.target.closest?.("[data-clipped]");
    if (!element || (event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    toggle(element);
  });
  window.addEventListener("resize", () => { close(); ds.markClipped(); });
  ds.onChange(ds.markClipped);

  // Answers fill headers and cards; what they hold may be cut.
  const heads = new MutationObserver(ds.markClipped);
  ds.watchClipped = () => {
    for (const element of document.querySelectorAll(".panel-head, #table-cards"))
      heads.observe(element, { childList: true, characterData: true, subtree: true });
  };
})();
