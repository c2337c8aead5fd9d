/* Mixing: one map panel a run, one read of every run over origins, one entry of every run over steps. */
(() => {
  const ds = (window.depthscope = window.depthscope || {});
  const MAPS = ds.mapPanels("mixing");
  const LEFT_OUT = ["mixing-maps", "mixing-row", "mixing-series"].map((part) => `left-out-${part}`);
  const READINGS = ["contribution", "coefficient"].flatMap((share) => [`${share}-absolute`, `${share}-difference`]);

  /** Row and origin of the followed entry in a run's map, from 0; null where the run has no such cell. */
  const placed = (view, layers) => {
    const [target, origin] = view.entry.split(":");
    const row = target === "output" ? layers : Number(target) - 1;
    const column = origin === "constant" ? layers + 1 : Number(origin);
    return row <= layers && (origin === "constant" || column <= row) ? { row, column } : null;
  };
  const entryAt = (layers, row, column) =>
    `${row === layers ? "output" : row + 1}:${column === layers + 1 ? "constant" : column}`;

  ds.definePage("mixing", {
    questions: (view, common) => {
      const maps = ds.mapped(view);
      const runs = (view.able.length ? maps : view.runs).map((run) => run.id);
      const step = view.following ? null : view.shownStep;
      const pins = view.mixing === "difference" ? view.pins : [];
      const asked = { ...common, runs, step, base: view.base, align: view.align, share: view.share, mixing: view.mixing, pins };
      const questions = Object.fromEntries(maps.map((run, i) => [MAPS[i], { ...asked, shown: run.id }]));
      if (!maps.length) questions[MAPS[0]] = { ...asked, shown: null };
      if (!view.able.length) return questions;   // the first map says why, for all
      questions["mixing-row"] = { ...asked, focus: view.focus, entry: view.entry };
      questions["mixing-series"] = { ...common, runs, focus: view.focus, share: view.share, entry: view.entry };
      return questions;
    },
  });

  ds.onChange((view) => {
    if (view.page !== "mixing") return;
    ds.showMaps(view, { panels: MAPS, grid: "mixing-maps", choice: "only-mixing", size: (run) => run.layers, across: MAPS.length, leftOut: LEFT_OUT });
    const none = view.runs.length > 0 && !view.able.length;
    for (const part of ["mixing-lines", "panel-mixing-row", "panel-mixing-series"]) document.getElementById(part).hidden = none;
    const reading = `${view.share}-${view.mixing === "difference" ? "difference" : "absolute"}`;
    for (const name of READINGS) document.getElementById(`reading-${name}`).hidden = name !== reading;
  });

  const stripOf = (column, layers) => (column === 0 ? "embedding" : column > layers ? "constant" : "sublayers");
  for (const panel of MAPS) {
    ds.paint(panel, (gd, view) => Object.entries(gd.layout.meta.maps).flatMap(([run, map]) => {
      const place = placed(view, map.layers);
      if (!place) return [];
      const { row, column } = place;
      const strip = stripOf(column, map.layers);
      const trace = gd._fullData.find((entry) => entry.meta.run === run && entry.meta.role === strip);
      const across = strip === "sublayers" ? [column - 0.5, column + 0.5] : map.edges[strip];
      return trace ? ds.cellMark(gd, trace, across, [row - 0.5, row + 0.5]) : [];
    }));
    ds.onClick(panel, (point) => {
      const { run, role, first } = point.data.meta || {};
      const map = ds.drawn(panel).layout.meta.maps[run];
      if (!map || first === undefined) return;
      const column = role === "sublayers" ? first + point.pointNumber[1] : first;
      ds.change({ entry: entryAt(map.layers, point.y, column), focus: run });
    });
  }
  ds.paint("mixing-row", ds.endLabels, { onState: false });
  ds.onClick("mixing-row", (point) => {
    const { run, first } = point.data.meta || {};
    const row = ds.drawn("mixing-row").layout.meta.rows[run];
    if (!row) return;
    const origin = first + point.pointNumber;
    const target = ds.resolve().entry.split(":")[0];
    ds.change({ entry: `${target}:${origin === row.origin_names.length - 1 ? "constant" : origin}`, focus: run });
  });
  ds.paint("mixing-series", (gd, view) => {
    const run = gd.layout.meta.labels[0]?.run;
    return [...(run ? ds.cursor(gd, run, view) : []), ...ds.endLabels(gd)];
  });

  const SAID = { contribution: "contribution ⟨c, h⟩/‖h‖², a share of the read", coefficient: "coefficient ⟨c, v⟩/‖v‖², the factor in the read" };
  const said = (meta) => (meta.mode === "difference" ? `difference of the ${meta.share}s` : SAID[meta.share]);
  ds.onHover("mixing", (point, meta) => {
    const { run, role, first } = point.data.meta || {};
    const map = meta.maps[run];
    if (!map) return null;
    const when = `step ${ds.count(map.step)}`;
    const reads = map.target_names[point.y];
    const sum = `${meta.mode === "difference" ? "its own row" : "row"} sums to ${ds.threeDigits(map.sums[point.y])}, cancellation ${ds.threeDigits(map.cancellation[point.y])}`;
    if (role === "cancellation") {
      const size = map.cancellation[point.y];
      const past = size > 2 ? "single shares are large terms that cancel" : "sizes of the contributions, summed";
      return [ds.threeDigits(size), ds.nameOf(run), `cancellation of ${reads}: ${past}`, when];
    }
    const origin = map.origin_names[role === "sublayers" ? first + point.pointNumber[1] : first];
    return [ds.threeDigits(point.z), ds.nameOf(run), `${reads} reads ${origin}: ${said(meta)}`, `${sum}, ${when}`];
  });
  ds.onHover("mixing-row", (point, meta) => {
    const { run, first } = point.data.meta || {};
    const row = meta.rows[run];
    return row ? [ds.threeDigits(point.y), ds.nameOf(run), `${row.target_name} reads ${row.origin_names[first + point.pointNumber]}: ${said(meta)}`, `step ${ds.count(row.step)}`] : null;
  });
  ds.onHover("mixing-series", (point, meta) => {
    const run = point.data.meta?.run;
    const entry = meta.entries[run];
    return entry ? [ds.threeDigits(point.y), ds.nameOf(run), `${entry.target_name} reads ${entry.origin_name}`, `step ${ds.count(point.x)}`] : null;
  });
})();
