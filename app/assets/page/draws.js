/* Figures on their way to the screen: one that comes during a drag on a plot waits for its end, since plotly's drag
   breaks on a plot drawn anew; one that is drawn tells the page. A clientside callback could tell it too, but each of
   those makes Dash look through the whole document a dozen times. */
(() => {
  const ds = (window.depthscope = window.depthscope || {});
  let pressed = false;
  const waiting = [];

  ds.dragging = () => pressed;
  document.addEventListener("pointerdown", (event) => { pressed = Boolean(event.target.closest?.(".graph")); }, true);
  const released = () => {
    pressed = false;
    for (const draw of waiting.splice(0)) draw();
    ds.askAgain();
  };
  // A moment later: plotly ends its drag with the event that follows.
  for (const end of ["pointerup", "pointercancel"])
    document.addEventListener(end, () => { if (pressed) window.setTimeout(released, 0); }, true);

  /** A figure is drawn: its overlay follows it from now on. */
  const arrived = (gd) => {
    const { meta } = gd.layout;
    const mark = meta?.asked;
    if (!mark?.panel) return;
    ds.answered(mark.panel, mark);
    ds.pages[ds.pageOf(mark.panel)]?.arrived?.(mark.panel, meta);
    ds.follow(mark.panel);
  };

  // Plotly comes when the first graph is in the document, and announces itself by its name.
  let plotly = null;
  Object.defineProperty(window, "Plotly", {
    configurable: true,
    get: () => plotly,
    set: (library) => {
      const { react } = library;
      plotly = library;
      plotly.react = async (gd, ...figure) => {
        if (pressed) await new Promise((ended) => { waiting.push(ended); });
        const drawn = await react(gd, ...figure);
        arrived(gd);
        return drawn;
      };
    },
  });
})();
