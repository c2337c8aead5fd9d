/* What lies over the plots as HTML: cursors, pins, names at line ends, names of blocks and of maps.
   Moving a line of CSS costs a fraction of a relayout, and names stay text. */
(() => {
  const ds = (window.depthscope = window.depthscope || {});
  const { make, fill } = ds;
  const LABEL_HEIGHT = 15;
  const MOST_LABELS = 6;
  const NAMED_BAND = 46;   // px
  const NUMBERED_BAND = 18;   // px; nearer numbers would run into one another

  ds.plot = (panel) => document.querySelector(`#graph-${panel} .js-plotly-plot`);
  const drawn = (panel) => {
    const gd = ds.plot(panel);
    return gd && gd._fullLayout && gd._fullLayout.xaxis && gd.layout.meta?.panel ? gd : null;
  };
  const px = (value) => `${value.toFixed(1)}px`;

  /** The step a run stands at: its newest row at or before the step shown. */
  const standsAt = (run, view) => {
    const steps = drawn("profile")?.layout.meta.steps || {};
    if (view.page === "depth" && view.align !== "step" && steps[run] !== undefined && steps[run] >= 0) return steps[run];
    const entry = ds.catalogue.runs.find((other) => other.id === run);
    return Math.min(view.shownStep, entry?.last_step ?? view.shownStep);
  };

  /** Push labels apart to 15 px, keeping their order and staying inside [top, bottom]. */
  const spread = (labels, top, bottom) => {
    const sorted = [...labels].sort((a, b) => a.y - b.y);
    let floor = top;
    for (const label of sorted) { label.y = Math.max(label.y, floor); floor = label.y + LABEL_HEIGHT; }
    let ceiling = bottom;
    for (const label of sorted.reverse()) { label.y = Math.min(label.y, ceiling); ceiling = label.y - LABEL_HEIGHT; }
    return sorted;
  };

  /** A name with what tells it apart in brackets, and where it ends: these stay whole, what is in front gives way. */
  const endName = (text) => {
    const [, name, apart] = /^(.*?)((?: \([^()]*\))?(?: to \S+)?)$/.exec(text);
    return [make("span", { class: "end-name" }, name), ...(apart ? [make("span", { class: "end-apart" }, apart)] : [])];
  };

  const endLabels = (gd) => {
    const { labels, focus } = gd.layout.meta;
    const { xaxis, yaxis } = gd._fullLayout;
    const lines = labels.filter((label) => !label.pin).length;
    const kept = labels.filter((label) => label.y !== null && (lines <= MOST_LABELS || label.run === focus || label.run === null));
    const placed = kept.map((label) => {
      const y = yaxis.l2p(yaxis.d2l(label.y));
      return { ...label, y: yaxis._offset + Math.min(Math.max(y, 0), yaxis._length) };
    });
    const left = xaxis._offset + xaxis._length + 10;
    return spread(placed, yaxis._offset, yaxis._offset + yaxis._length).map((label) =>
      make("span", { class: "end-label", "data-run": label.run, style: { left: px(left), top: px(label.y), "max-width": px(gd._fullLayout.width - left - 2) } },
        make("span", { class: "end-dash", style: { background: label.slot ? ds.colour(label.slot) : label.run ? "var(--run-control)" : "var(--text-muted)" } }),
        ...endName(label.text)));
  };

  const bandNames = (gd) => {
    const { bands } = gd.layout.meta;
    const { xaxis } = gd._fullLayout;
    const placed = bands.map((band) => ({ ...band, left: xaxis.l2p(band.x0), right: xaxis.l2p(band.x1) }));
    const room = Math.min(...placed.map((band) => band.right - band.left));
    if (room < NUMBERED_BAND) return [];
    return placed
      .map((band) => ({ ...band, middle: (band.left + band.right) / 2 }))
      .filter((band) => band.middle > 0 && band.middle < xaxis._length)
      .map((band) => make("span", { class: "band-name", style: { left: px(xaxis._offset + band.middle) } },
        room >= NAMED_BAND ? `block ${band.block}` : String(band.block)));
  };

  /** The cursor at the step a run stands at, with its number on top; nothing outside the axis. */
  const cursor = (gd, run, view) => {
    const { xaxis, yaxis } = gd._fullLayout;
    const x = xaxis.l2p(standsAt(run, view));
    return x < -0.5 || x > xaxis._length + 0.5 ? [] : [
      make("span", { class: "cursor", style: { left: px(xaxis._offset + x), top: px(yaxis._offset), height: px(yaxis._length) } }),
      make("span", { class: "cursor-label strong", style: { left: px(xaxis._offset + x) } }, ds.count(standsAt(run, view))),
    ];
  };
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
    const step = standsAt(entry.run, view);
    const x = xaxis.l2p(step);
    const title = make("span", { class: "map-title", style: { left: px(xaxis._offset + 2), "max-width": px(xaxis._length - 8) } },
      make("span", { class: "end-dash", style: { background: ds.colour(entry.slot) } }), entry.name);
    const number = make("span", { class: "cursor-label", style: { left: px(xaxis._offset + x) } }, ds.count(step));
    return [title, ...view.pins.flatMap((pin) => line("map-pin", pin)), ...line("map-cursor", step), ...(inside(x) ? [number] : [])];
  };

  /** Names, cursors and pins over maps with steps to the right. */
  const mapOverlay = (gd, view, overlay) => {
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

  Object.assign(ds, { drawn, px, standsAt, spread, endLabels, bandNames, cursor, mapOverlay });

  // Painters: what lies over a panel's plot, drawn again with every draw, and where `onState` with every change.
  const painters = {};
  ds.paint = (panel, paint, { onState = true } = {}) => { painters[panel] = { paint, onState }; };

  const draw = (panel, view) => {
    const overlay = document.getElementById(`overlay-${panel}`);
    if (!overlay || overlay.closest("[hidden]")) return;
    const gd = drawn(panel);
    if (!gd) return fill(overlay, []);
    fill(overlay, painters[panel].paint(gd, view, overlay));
  };

  ds.repaint = (panels) => { for (const panel of panels) draw(panel, ds.resolve()); };
  ds.drawOverlays = (view = ds.resolve()) => { for (const panel of Object.keys(painters)) draw(panel, view); };
  ds.onChange((view) => {
    for (const [panel, { onState }] of Object.entries(painters)) if (onState) draw(panel, view);
  });

  /** Called when a graph has its figure: from then on overlays follow every draw and zoom. */
  ds.follow = (panel) => {
    const gd = ds.plot(panel);
    if (!gd.dataset.followed) {
      gd.dataset.followed = "yes";
      gd.on("plotly_afterplot", () => ds.drawOverlays());
      ds.listen(panel, gd);
    }
    ds.drawOverlays();
  };
})();
