/* Pages with one map panel a run: which runs these are, how the panels share the room, and the choice of one run. */
(() => {
  const ds = (window.depthscope = window.depthscope || {});
  const { make, fill } = ds;
  const MOST = 4;

  /** The runs whose maps are shown: the chosen one, else all that have maps; without any, the first has the reason. */
  ds.mapped = (view) => {
    const chosen = view.able.filter((run) => view.only === "all" || run.id === view.only);
    const runs = chosen.length ? chosen : view.able;
    return (runs.length ? runs : view.runs.slice(0, 1)).slice(0, MOST);
  };

  /** Write into each of `places` which selected runs have maps for which there is no room. */
  const sayLeftOut = (view, places) => {
    const left = ds.mapped(view).length < MOST ? [] : view.able.slice(MOST);
    const whole = left.length ? `the first ${MOST} of ${view.able.length} runs` : "";
    const names = left.map((run) => run.name).join(", ");
    places.map((id) => document.getElementById(id)).forEach((element) => {
      element.title = names && `Not shown: ${names}. Take others out of the selection to see them.`;
      fill(element, whole ? [element.dataset.names === undefined ? whole : `${whole}, without ${names}`] : []);
    });
  };

  /** Panels `stem`-1 to -4. */
  ds.mapPanels = (stem) => Array.from({ length: MOST }, (_, i) => `${stem}-${i + 1}`);

  const rather = (label, value, pressed) => make("button", {
    type: "button", class: "segment", title: label, "data-action": "set", "data-name": "only", "data-value": value,
    "aria-pressed": pressed ? "true" : "false",
  }, label);

  /** Show as many panels as maps, `across` in a row: a run with more of `size` gets more room; say what is left out. */
  ds.showMaps = (view, { panels, grid, choice, size, across, leftOut }) => {
    sayLeftOut(view, leftOut);
    const maps = ds.mapped(view);
    panels.forEach((panel, i) => {
      document.getElementById(`panel-${panel}`).hidden = i >= Math.max(maps.length, 1);
      fill(document.getElementById(`sample-${panel}`), maps[i] && view.able.length ? [ds.lineSample(maps[i])] : []);
    });
    const most = Math.max(...maps.map(size), 1);
    const columns = maps.slice(0, across).map((run) => (size(run) * 2 > most ? "656fr" : "500fr"));
    const element = document.getElementById(grid);
    element.style.gridTemplateColumns = columns.join(" ") || "1fr";
    element.classList.toggle("many", maps.length > across);
    const only = view.able.some((run) => run.id === view.only) ? view.only : "all";
    const names = view.able.slice(0, MOST).map((run) => rather(run.name, run.id, run.id === only));
    const whole = view.able.length > MOST ? `First ${MOST}` : view.able.length === 2 ? "Both runs" : "All runs";
    const all = rather(whole, "all", only === "all");
    fill(document.getElementById(choice), view.able.length > 1 ? [all, ...names] : []);
  };

  /** The frame around a cell of a map, between these places on its axes; nothing where it is zoomed out of sight. */
  ds.cellMark = (gd, trace, [x0, x1], [y0, y1]) => {
    const xaxis = gd._fullLayout[trace.xaxis.replace("x", "xaxis")];
    const yaxis = gd._fullLayout[trace.yaxis.replace("y", "yaxis")];
    const [left, right, top, bottom] = [xaxis.l2p(x0), xaxis.l2p(x1), yaxis.l2p(y0), yaxis.l2p(y1)];
    if (right < 0 || left > xaxis._length || bottom < 0 || top > yaxis._length) return [];
    return [make("span", { class: "cell-mark", style: {
      left: ds.px(xaxis._offset + left), top: ds.px(yaxis._offset + top), width: ds.px(right - left), height: ds.px(bottom - top),
    } })];
  };
})();
