/* Depth profile: what its panels ask, what lies over their plots, what hovering says. */
(() => {
  const ds = (window.depthscope = window.depthscope || {});
    const OTHER_QUANTITY = ["fresh", "write"];   // modes that show another quantity than the menu's
  const MARKER_ROOM = 8;   // px a sublayer

  ds.definePage("depth", {
    questions: (view, common) => {
      const depth = { ...common, base: view.base, mode: view.mode, scale: view.scale, range: view.range, align: view.align };
      const moment = { step: view.following ? null : view.shownStep, pins: view.pins, focus: view.focus };
      return {
        profile: { ...depth, ...moment, metric: view.metric },
        gradient: { ...depth, ...moment, metric: "grad_write_rms", mode: OTHER_QUANTITY.includes(view.mode) ? "absolute" : view.mode },
        loss: { ...common, scale: view.scale, focus: view.focus },
        maps: { ...depth, metric: view.metric },
      };
    },
    arrived: (panel, meta) => {
      if (panel !== "profile" || !meta.missing) return;
      ds.missing = meta.missing;
      ds.allowLog(!meta.signed);
      ds.tell();
    },
  });

  const profile = (gd) => {
    const { xaxis } = gd._fullLayout;
    const sublayers = Math.abs(xaxis.range[1] - xaxis.range[0]) <= 1.01
      ? Math.max(...Object.values(gd.layout.meta.layers).map((entry) => entry.kinds.length))
      : Math.abs(xaxis.range[1] - xaxis.range[0]);
    gd.classList.toggle("no-markers", xaxis._length / sublayers < MARKER_ROOM);
    return [...ds.bandNames(gd), ...ds.endLabels(gd)];
  };

  const loss = (gd, view) => [...ds.cursor(gd, view.base, view), ...ds.endLabels(gd)];

  ds.paint("profile", profile, { onState: false });
  ds.paint("gradient", profile, { onState: false });
  ds.paint("loss", loss);
  ds.paint("maps", ds.mapOverlay);
  ds.onClick("maps", (point) => {
    if (point.data.meta?.role === "map") ds.goTo(ds.stepUnder(point.data.meta.run, point));
  });
})();
