/* Depth profile: what its panels ask, what lies over their plots, what hovering says. */
(() => {
  const ds = (window.depthscope = window.depthscope || {});
  const { make, px } = ds;
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

  const oneMap = (gd, entry, view) => {
    const xaxis = gd._fullLayout[`xaxis${entry.axis}`];
    const yaxis = gd._fullLayout[`yaxis${entry.axis}`];
    const inside = (x) => x >= -0.5 && x <= xaxis._length + 0.5;
    const line = (kind, step) => {
      const x = xaxis.l2p(step);
      return inside(x) && step <= entry.last
        ? [make("span", { class: kind, style: { left: px(xaxis._offset + x), top: px(yaxis._offset), height: px(yaxis._length) } })]
        : [];
    };
    const step = ds.standsAt(entry.run, view);
    const x = xaxis.l2p(step);
    const title = make("span", { class: "map-title", style: { left: px(xaxis._offset + 2), "max-width": px(xaxis._length - 8) } },
      make("span", { class: "end-dash", style: { background: ds.colour(entry.slot) } }), entry.name);
    const number = make("span", { class: "cursor-label", style: { left: px(xaxis._offset + x) } }, ds.count(step));
    return [title, ...view.pins.flatMap((pin) => line("map-pin", pin)), ...line("map-cursor", step), ...(inside(x) ? [number] : [])];
  };

  const maps = (gd, view, overlay) => {
    overlay.classList.toggle("signed", Boolean(gd.layout.meta.signed));
    window.requestAnimationFrame(() => hideCovered(overlay));
    return gd.layout.meta.maps.flatMap((entry) => oneMap(gd, entry, view));
  };

  /** The number of the step gives way where a map's name needs the room. */
  const hideCovered = (overlay) => {
    const titles = [...overlay.querySelectorAll(".map-title")].map((title) => title.getBoundingClientRect());
    for (const number of overlay.querySelectorAll(".cursor-label")) {
      const box = number.getBoundingClientRect();
      const covered = titles.some((title) => box.left < title.right + 6 && box.right > title.left && box.top < title.bottom);
      number.classList.toggle("covered", covered);
    }
  };

  ds.paint("profile", profile, { onState: false });
  ds.paint("gradient", profile, { onState: false });
  ds.paint("loss", loss);
  ds.paint("maps", maps);
  ds.onClick("maps", (point) => {
    if (point.data.meta?.role === "map") ds.goTo(ds.stepUnder(point.data.meta.run, point));
  });
})();
