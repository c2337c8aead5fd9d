/* The findings line: one finding at a time, known by its key, so that it stays while findings come and go. */
(() => {
  const ds = (window.depthscope = window.depthscope || {});

  const entries = () => [...document.querySelectorAll("#findings .finding")];
  const placeIn = (all) => Math.max(all.findIndex((entry) => entry.dataset.finding === ds.state.finding), 0);

  ds.turnFinding = (by) => {
    const all = entries();
    if (all.length) ds.change({ finding: all[(placeIn(all) + by + all.length) % all.length].dataset.finding });
  };

  /** Whether the page shows a finding's evidence now: its page, step, run, and quantity or cell. */
  const isShown = (view, { page, step, run, metric, cell }) =>
    page === view.page && Number(step) === view.shownStep && run === view.focus
    && (!metric || (metric === view.metric && view.mode === "absolute")) && (!cell || cell === view.cell);

  ds.showFinding = (view = ds.resolve()) => {
    const all = entries();
    const at = placeIn(all);
    let shown = false;
    all.forEach((entry, i) => {
      entry.hidden = i !== at;
      const link = entry.querySelector("[data-action=evidence]");
      const here = i === at && isShown(view, link.dataset);
      entry.classList.toggle("shown", here);
      if (here) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current");
      shown = shown || here;
    });
    const count = `Finding ${at + 1} of ${all.length}${shown ? ", shown here" : ""}`;
    document.getElementById("finding-count").textContent = all.length ? count : "No finding here";
    document.querySelector(".finding-bar").classList.toggle("one", all.length < 2);
    for (const line of document.querySelectorAll(".finding-line"))
      line.classList.toggle("visited", line.dataset.finding === ds.state.finding);
    ds.markClipped();
  };
  ds.onChange(ds.showFinding);
})();
