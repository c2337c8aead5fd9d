/* Skip paths: arcs of two runs, effects against weights, a table of all. */
(() => {
  const ds = (window.depthscope = window.depthscope || {});
  const { make, px } = ds;

  ds.definePage("paths", {
    questions: (view, common) => {
      const runs = (view.able.length ? view.able : view.runs).map((run) => run.id);
      // The baseline above the axis, the focused run below it; without them the first two.
      const ordered = [view.base, view.focus].filter((id, i, all) => runs.includes(id) && all.indexOf(id) === i);
      const asked = {
        ...common, runs, ordered, step: view.following ? null : view.shownStep,
        top: view.top, threshold: view.threshold, distance: view.distance, cut: view.cut,
      };
      const { top, threshold, ...rest } = asked;
      return { arcs: asked, effects: { ...rest, step: ds.measuredStep(view, "sources"), against: view.against, scale: view.scale }, paths: asked };
    },
  });

  /** The two runs' names, above and below the axis. */
  const names = (gd) => gd.layout.meta.sides.map((entry) => {
    const { yaxis, xaxis } = gd._fullLayout;
    const top = entry.side > 0 ? yaxis._offset + 2 : yaxis._offset + yaxis._length - 18;
    const none = entry.paths ? "" : ", no skip path";
    return make("span", { class: "map-title side-name", style: { left: px(xaxis._offset + 8), top: px(top) } },
      make("span", { class: "end-dash", style: { background: ds.colour(entry.slot) } }), `${ds.nameOf(entry.run)}${none}`);
  });
  ds.paint("arcs", names, { onState: false });

  ds.onHover("arcs", (point, meta) => {
    const { run, path } = point.data.meta || {};
    const entry = meta.paths[run]?.[path];
    if (!entry) return null;
    const share = entry.contribution === null ? "contribution not recorded" : `contribution ${ds.threeDigits(entry.contribution)}`;
    const mean = entry.records === 1 ? "the last record" : `the last ${entry.records} records`;
    return [
      ds.threeDigits(entry.weight), ds.nameOf(run),
      `${entry.target_name} reads ${entry.source_name}, distance ${entry.distance} ${entry.distance_unit}s, ${share}, ${ds.threeDigits(entry.times_uniform)} times uniform`,
      `mean of ${mean}, to step ${ds.count(meta.steps[run])}`,
    ];
  });
  const elsewhere = (gd, view) => {
    const words = ds.measuredElsewhere(view, Object.values(gd.layout.meta.runs).map((run) => run.step));
    return words ? make("span", { class: "elsewhere" }, words) : null;
  };
  /** Over the scatter: how each run's effects go with its weights and contributions, and what holds by construction. */
  const said = (gd, view) => gd.layout.meta.rows.map(({ slot, text }, i, rows) => make("span",
    { class: "effect-line", style: { top: px(4 + 16 * i) } },
    slot ? make("span", { class: "end-dash", style: { background: ds.colour(slot) } }) : null,
    text || null,
    i === rows.length - 1 ? elsewhere(gd, view) : null));
  ds.paint("effects", said);

  const SAID = { plain: "", free: ": wide, no cost seen", costly: ": narrow, costs much" };
  const orNone = (value) => (value === null ? "not recorded" : ds.threeDigits(value));
  ds.onHover("effects", (point, meta) => {
    const { run, role } = point.data.meta || {};
    const entry = meta.runs[run];
    if (!entry) return null;
    const i = point.customdata;
    const half = entry.interval[i] === null ? "" : ` ± ${ds.threeDigits(entry.interval[i])}`;
    const apart = [null, entry.step].includes(entry.record_step) ? "" : `, weights of step ${ds.count(entry.record_step)}`;
    const when = `${entry.step === null ? "" : `, step ${ds.count(entry.step)}`}${apart}`;
    const far = `${entry.distance[i]} ${entry.unit}${entry.distance[i] === 1 ? "" : "s"}`;
    return [
      `${ds.threeDigits(entry.effect[i])}${half}`, `${ds.nameOf(run)}, nats a token${SAID[role]}`,
      `${entry.target_names[entry.rows[i]]} without ${entry.source_names[entry.columns[i]]}, distance ${far}`,
      `weight ${orNone(entry.weight[i])}, contribution ${orNone(entry.contribution[i])}; ${entry.mode}${when}`,
    ];
  });
  ds.onClick("effects", (point) => {
    const { run } = point.data.meta || {};
    const entry = ds.drawn("effects").layout.meta.runs[run];
    if (!entry) return;
    const i = point.customdata;
    ds.goToPage("attention", { cell: `${run}:${entry.targets[entry.rows[i]]}:${entry.columns[i]}`, focus: run, only: "all" });
  });
  ds.onClick("arcs", (point) => {
    const { run, path } = point.data.meta || {};
    const entry = ds.drawn("arcs").layout.meta.paths[run]?.[path];
    if (entry) ds.goToPage("attention", { cell: `${run}:${entry.target}:${entry.source}`, focus: run, only: "all" });
  });
})();
