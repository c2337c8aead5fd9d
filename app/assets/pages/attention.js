/* Depth attention: one map panel a run, the cell that is followed over steps, what hovering says. */
(() => {
  const ds = (window.depthscope = window.depthscope || {});
  const MAPS = ds.mapPanels("attention");
  const SERIES = ["cell-weight", "cell-contribution"];

  const chosenCell = (view) => {
    const [run, target, source] = (view.cell || "").split(":");
    const held = ds.mapped(view).some((entry) => entry.id === run);
    return held && /^\d+$/.test(target) && /^\d+$/.test(source) ? { run, cell: [Number(target), Number(source)] } : null;
  };

  const readable = (view) => view.weights === "mean" && view.targets === "together";
  /** Two decimals, a half to the even one, as the server writes them. */
  const twoDigits = (value) => {
    if (!Number.isFinite(value)) return "–";
    const near = Math.round(100 * value);
    const even = Math.abs((100 * value) % 1) === 0.5 && near % 2 ? near - 1 : near;
    return (even / 100).toFixed(2).replace("-", "−");
  };

  ds.definePage("attention", {
    questions: (view, common) => {
      const maps = ds.mapped(view);
      const runs = (view.able.length ? maps : view.runs).map((run) => run.id);
      const step = view.following ? null : view.shownStep;
      const asked = {
        ...common, runs, step, base: view.base, align: view.align, targets: view.targets, weights: view.weights, cut: view.cut,
        pins: view.weights === "difference" ? view.pins : [],
      };
      const cell = chosenCell(view);
      const focus = maps.find((run) => run.id === view.focus) || maps[0];
      const followed = cell?.run ?? focus?.id ?? null;
      const one = { ...common, runs: followed ? [followed] : [], shown: followed, cell: cell?.cell ?? null };
      const questions = Object.fromEntries(maps.map((run, i) => [MAPS[i], { ...asked, shown: run.id }]));
      if (!maps.length) questions[MAPS[0]] = { ...asked, shown: null };
      // A series over all steps does not change with the step: its value there is read off the map, when that shows it.
      for (const panel of SERIES) questions[panel] = readable(view) ? one : { ...one, step };
      questions.distant = { ...one, step, cell: null, targets: view.targets };
      return questions;
    },
  });

  ds.onChange((view) => {
    if (view.page === "attention")
      ds.showMaps(view, { panels: MAPS, grid: "attention-maps", choice: "only", size: (run) => run.sources, across: 2, leftOut: ["left-out-attention"] });
  });

  /** The mark of the followed cell, in both maps of its run. */
  const selected = (gd) => {
    const cells = ds.drawn(SERIES[0])?.layout.meta.cells || {};
    const parts = [];
    for (const [run, map] of Object.entries(gd.layout.meta.maps)) {
      const cell = cells[run];
      const row = cell ? map.targets.indexOf(cell.target) : -1;
      if (row < 0) continue;
      for (const trace of gd._fullData.filter((entry) => entry.type === "heatmap" && entry.meta.run === run)) {
        const value = document.querySelector(`#key-cell-${trace.meta.role} .value`);
        if (value && readable(ds.resolve())) value.textContent = twoDigits(trace.z[row][cell.source]);
        parts.push(...ds.cellMark(gd, trace, [cell.source - 0.5, cell.source + 0.5], [row - 0.5, row + 0.5]));
      }
    }
    return parts;
  };
  for (const panel of MAPS) {
    ds.paint(panel, selected);
    ds.onClick(panel, (point) => {
      const { run, role } = point.data.meta || {};
      if (!["weight", "contribution", "effect"].includes(role)) return;
      const map = ds.drawn(panel).layout.meta.maps[run];
      ds.change({ cell: `${run}:${map.targets[point.y]}:${point.x}`, focus: run });
    });
  }
  for (const panel of SERIES) ds.paint(panel, (gd, view) => {
    const run = Object.keys(gd.layout.meta.cells)[0];
    if (panel === SERIES[0]) window.requestAnimationFrame(() => ds.repaint(MAPS));
    return run ? ds.cursor(gd, run, view) : [];
  });

  ds.onHover("attention", (point, meta) => {
    const { run, role } = point.data.meta || {};
    const map = meta.maps[run];
    if (!map) return null;
    const when = `step ${ds.count(map.step)}`;
    if (role === "entropy") return [ds.threeDigits(point.x), ds.nameOf(run), `entropy of ${map.target_names[point.y]}, 1 is uniform`, when];
    if (role.startsWith("mass")) return [ds.threeDigits(point.y), ds.nameOf(run), `mean ${role.slice(5)} of ${map.source_names[point.x]}`, when];
    const [target, source] = [map.target_names[point.y], map.source_names[point.x]];
    if (role === "effect") {
      const half = Number.isFinite(point.customdata) ? ` ± ${ds.threeDigits(point.customdata)}` : "";
      return [`${ds.threeDigits(point.z)}${half}`, `${ds.nameOf(run)}, nats a token`, `${target} without ${source}, loss change when cut`, map.measured];
    }
    const sources = map.n_sources[point.y];
    const part = map.partial[point.y] === point.x ? " (partial)" : "";
    const uniform = role === "weight" ? `, uniform ${ds.threeDigits(1 / sources)}` : "";
    return [
      ds.threeDigits(point.z), ds.nameOf(run),
      `${target} reads ${source}${part}, ${role}${uniform}`, when,
    ];
  });
  ds.onHover("series", (point, meta) => {
    const run = point.data.meta?.run;
    const cell = meta.cells[run];
    return cell ? [ds.threeDigits(point.y), ds.nameOf(run), `${cell.target_name} reads ${cell.source_name}, ${meta.part}`, `step ${ds.count(point.x)}`] : null;
  });
})();
