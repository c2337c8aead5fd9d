/* Block boundaries: what its panels ask, what lies over their plots, what hovering says. */
(() => {
  const ds = (window.depthscope = window.depthscope || {});
  const { make, px } = ds;
  const OVER_STEPS = ["sums", "reset", "read"];
  const KINDS = { mlp: "MLP", attention: "attention" };

  ds.definePage("boundaries", {
    questions: (view, common) => {
      const runs = (view.able.length ? view.able : view.runs).map((run) => run.id);
      const over = { ...common, runs, scale: view.scale, focus: view.focus };
      return {
        "boundary-folded": { ...over, step: view.following ? null : view.shownStep },
        ...Object.fromEntries(OVER_STEPS.map((show) => [`boundary-${show}`, over])),
      };
    },
  });

  /** The numbers of blocks at the ends of their lines, kept apart in each run's column. */
  const blockNumbers = (gd, { axis }) => {
    const xaxis = gd._fullLayout[`xaxis${axis}`];
    const yaxis = gd._fullLayout[`yaxis${axis}`];
    const labels = gd.layout.meta.ends.filter((end) => end.axis === axis)
      .map((end) => ({ ...end, left: xaxis._offset + xaxis.l2p(end.x) + 8, y: yaxis._offset + yaxis.l2p(yaxis.d2l(end.y)) }))
      .filter((end) => end.left <= xaxis._offset + xaxis._length + 8 && end.y >= yaxis._offset && end.y <= yaxis._offset + yaxis._length);
    return ds.spread(labels, yaxis._offset, yaxis._offset + yaxis._length)
      .map((end) => make("span", { class: "end-label", style: { left: px(end.left), top: px(end.y) } }, end.text));
  };

  ds.paint("boundary-folded", (gd) => gd.layout.meta.columns.flatMap((entry) => {
    const xaxis = gd._fullLayout[`xaxis${entry.axis}`];
    const colour = entry.slot ? ds.colour(entry.slot) : "var(--run-control)";
    const title = make("span", { class: "map-title", style: { left: px(xaxis._offset + 2), "max-width": px(xaxis._length - 8) } },
      make("span", { class: "end-dash", style: { background: colour } }), make("span", { class: "end-name" }, entry.name));
    return [title, ...blockNumbers(gd, entry)];
  }), { onState: false });
  for (const show of OVER_STEPS) {
    ds.paint(`boundary-${show}`, (gd, view) => {
      ds.keepEdgeMarks(gd);
      return [...ds.cursor(gd, gd._fullData[0]?.meta.run ?? view.base, view), ...ds.endLabels(gd)];
    });
  }

  /** Where a point lies: ``sublayer 13, attention, block 3``, or which boundary. */
  const placeOf = (point, meta) => {
    const { run, row, dim, role } = point.data.meta;
    if (dim === "boundary") return `boundary of blocks ${row} and ${row + 1}`;
    if (meta.show !== "folded") return `block ${row}`;
    const block = role === "map" ? point.y : row;
    const layer = meta.places[run][block - 1][Math.round(point.x) - 1];
    const kind = KINDS[meta.kinds[run][layer - 1]] || "other";
    return `sublayer ${layer}, ${kind}, block ${block}`;
  };

  ds.onHover("boundaries", (point, meta) => {
    const { run, role, control } = point.data.meta || {};
    if (!run) return null;
    const value = role === "map" ? ds.threeDigits(meta.log ? 10 ** point.z : point.z) : ds.valueAt(point);
    const step = meta.show === "folded" ? meta.steps[run] : point.x;
    return [value, ds.nameOf(run), `${placeOf(point, meta)}${control ? ", control" : ""}`, `step ${ds.count(step)}`];
  });
})();
