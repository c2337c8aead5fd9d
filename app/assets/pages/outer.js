/* Outer state: what its panels ask, what lies over their plots, what hovering says. */
(() => {
  const ds = (window.depthscope = window.depthscope || {});

  ds.definePage("outer", {
    questions: (view, common) => {
      const runs = (view.able.length ? view.able : view.runs).map((run) => run.id);
      const over = { ...common, runs, focus: view.focus };
      if (view.runs.length && !view.able.length) return { "outer-map": over };   // it says why, for all
      const at = { ...over, step: view.following ? null : view.shownStep, base: view.base, align: view.align };
      return { "outer-map": over, "outer-balance": at, "outer-gates": at, "outer-direct": over };
    },
  });
  ds.onChange((view) => {
    if (view.page !== "outer") return;
    const none = view.runs.length > 0 && !view.able.length;
    document.getElementById("outer-panels").classList.toggle("none", none);
    for (const panel of ["balance", "gates", "direct"]) document.getElementById(`panel-outer-${panel}`).hidden = none;
  });

  ds.paint("outer-map", ds.mapOverlay);
  ds.paint("outer-direct", (gd, view) => {
    const run = gd.layout.meta.labels[0]?.run;
    return [...(run ? ds.cursor(gd, run, view) : []), ...ds.endLabels(gd)];
  });
  ds.onClick("outer-map", (point) => {
    if (point.data.meta?.role === "map") ds.goTo(ds.stepUnder(point.data.meta.run, point));
  });

  const SAID = {
    energy: "before the norm", write: "write", carry: "carry",
    "gate-read": "gate of reading", "gate-write": "gate of writing",
    "initial-read": "gate of reading, first record", "initial-write": "gate of writing, first record",
  };
  ds.onHover("outer", (point, meta) => {
    const { run, role } = point.data.meta || {};
    if (role === "map") return [ds.threeDigits(point.z), ds.nameOf(run), `block ${point.y}, before the norm`, `step ${ds.count(ds.stepUnder(run, point))}`];
    if (role === "line") return [ds.threeDigits(point.y), ds.nameOf(run), "amplitude of the embedding's direct path", `step ${ds.count(point.x)}`];
    if (!SAID[role]) return null;
    const step = role.startsWith("initial") ? meta.first[run] : meta.steps[run];
    return [ds.threeDigits(point.y), ds.nameOf(run), `block ${Math.round(point.x)}, ${SAID[role]}`, `step ${ds.count(step)}`];
  });
})();
