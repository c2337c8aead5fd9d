/* Depth profile: what its panels ask, what lies over their plots, what hovering says. */
(() => {
  const ds = (window.depthscope = window.depthscope || {});
  const MARKER_ROOM = 8;   // px a sublayer
  const NAMED = 2;         // runs that the key of markers names

  ds.definePage("depth", {
    questions: (view, common) => {
      const depth = { ...common, base: view.base, mode: view.mode, scale: view.scale, range: view.range, align: view.align, metric: view.metric };
      const moment = { step: view.following ? null : view.shownStep, pins: view.pins, focus: view.focus };
      return {
        profile: { ...depth, ...moment },
        gradient: { ...depth, ...moment },
        loss: { ...common, scale: view.scale, focus: view.focus },
        maps: depth,
      };
    },
    arrived: (panel, meta) => {
      if (panel !== "profile" || !meta.missing) return;
      ds.missing = meta.missing;
      ds.allowLog(!meta.signed);
      ds.tell();
    },
  });

  /** Set a class of the traces that `matches` picks, where `on(trace)` holds. */
  const classTraces = (gd, matches, name, on) => gd._fullData.forEach((trace, place) => {
    if (matches(trace.meta || {})) gd.calcdata[place]?.[0]?.node3?.classed(name, on(trace));
  });

  /** Show a run's markers where each of its sublayers has room for one; return the runs that show them. */
  const markers = (gd) => {
    const { xaxis } = gd._fullLayout;
    const { layers, normalised } = gd.layout.meta;
    const span = Math.abs(xaxis.range[1] - xaxis.range[0]);
    const room = (run) => xaxis._length / (normalised ? span * layers[run].kinds.length : span);
    const roomy = Object.keys(layers).filter((run) => room(run) >= MARKER_ROOM);
    classTraces(gd, (meta) => meta.role === "line", "bare", (trace) => !roomy.includes(trace.meta.run));
    return roomy;
  };

  /** The key of markers goes with them: hidden without any, and naming the runs that have some where not all do. */
  const keyMarkers = (gd, roomy) => {
    const key = document.getElementById("kinds-profile");
    const all = Object.keys(gd.layout.meta.layers).length;
    const names = roomy.slice(0, NAMED).map(ds.nameOf);
    const more = roomy.length > NAMED ? [`${roomy.length - NAMED} more`] : [];
    key.hidden = roomy.length === 0;
    key.lastElementChild.textContent = roomy.length === all ? "" : `of ${[...names, ...more].join(" and ")}`;
  };

  const profile = (gd) => {
    markers(gd);
    return [...ds.bandNames(gd), ...ds.endLabels(gd)];
  };
  const keyed = (gd) => {
    keyMarkers(gd, markers(gd));
    return profile(gd);
  };

  /** Marks of values beyond the axis stand at its edge; they go while the reader has zoomed it elsewhere. */
  ds.keepEdgeMarks = (gd) => {
    const home = gd.layout.meta.home?.yaxis;
    const away = Boolean(home) && home.some((end, i) => Math.abs(end - gd._fullLayout.yaxis.range[i]) > 1e-9 * (1 + Math.abs(end)));
    classTraces(gd, (meta) => meta.role === "mark" && ["above", "below"].includes(meta.kind), "away", () => away);
  };

  /** What hovering a mark or a line says first: the value, and where a mark stands for it. */
  ds.valueAt = (point) => {
    const { role, kind } = point.data.meta;
    if (role !== "mark") return ds.threeDigits(point.y);
    return point.customdata === undefined ? kind : `${ds.threeDigits(point.customdata)}, ${kind} the axis`;
  };

  const loss = (gd, view) => {
    ds.keepEdgeMarks(gd);
    return [...ds.cursor(gd, view.base, view), ...ds.endLabels(gd)];
  };

  ds.paint("profile", keyed, { onState: false });
  ds.paint("gradient", profile, { onState: false });
  ds.paint("loss", loss);
  ds.paint("maps", ds.mapOverlay);
  ds.onHover("loss", (point) => [ds.valueAt(point), ds.nameOf(point.data.meta.run), "", `step ${ds.count(point.x)}`]);
  ds.onClick("maps", (point) => {
    if (point.data.meta?.role === "map") ds.goTo(ds.stepUnder(point.data.meta.run, point));
  });
})();
