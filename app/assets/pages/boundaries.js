/* Block boundaries: what its panels ask, what lies over their plots, what hovering says. */
(() => {
  const ds = (window.depthscope = window.depthscope || {});
  const { make, px } = ds;
  const OVER_STEPS = ["sums", "reset", "read"];

  ds.definePage("boundaries", {
    questions: (view, common) => {
      const runs = (view.able.length ? view.able : view.runs).map((run) => run.id);
      const over = { ...common, runs, focus: view.focus };
      return {
        "boundary-folded": { ...over, step: view.following ? null : view.shownStep },
        ...Object.fromEntries(OVER_STEPS.map((show) => [`boundary-${show}`, over])),
      };
    },
  });

  ds.paint("boundary-folded", (gd) => gd.layout.meta.columns.map((entry) => {
    const xaxis = gd._fullLayout[`xaxis${entry.axis}`];
    const colour = entry.slot ? ds.colour(entry.slot) : "var(--text-muted)";
    return make("span", { class: "map-title", style: { left: px(xaxis._offset + 2), "max-width": px(xaxis._length - 8) } },
      make("span", { class: "end-dash", style: { background: colour } }), entry.name);
  }), { onState: false });
  for (const show of OVER_STEPS) ds.paint(`boundary-${show}`, (gd, view) => ds.cursor(gd, gd._fullData[0]?.meta.run ?? view.base, view));

  ds.onHover("boundaries", (point, meta) => {
    const { run, row, dim, control, layers } = point.data.meta || {};
    if (!run) return null;
    const where = dim === "boundary" ? `boundary of blocks ${row} and ${row + 1}` : `block ${row}`;
    const layer = layers?.[point.pointIndex];
    const place = meta.show === "folded" ? `${where}, position ${point.x}${layer ? `, sublayer ${layer}` : ""}` : where;
    const step = meta.show === "folded" ? meta.steps[run] : point.x;
    return [ds.threeDigits(point.y), ds.nameOf(run), `${place}${control ? ", control" : ""}`, `step ${ds.count(step)}`];
  });
})();
