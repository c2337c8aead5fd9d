/* Skip paths: arcs of two runs, a table of all. */
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
        top: view.top, threshold: view.threshold, distance: view.distance,
      };
      return { arcs: asked, paths: asked };
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
  ds.onClick("arcs", (point) => {
    const { run, path } = point.data.meta || {};
    const entry = ds.drawn("arcs").layout.meta.paths[run]?.[path];
    if (entry) ds.goToPage("attention", { cell: `${run}:${entry.target}:${entry.source}`, focus: run, only: "all" });
  });
})();
