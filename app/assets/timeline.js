/* Recorded steps as segments [first, last, distance] per run: long runs need no list of a million steps. */
(() => {
  const ds = (window.depthscope = window.depthscope || {});
  ds.timelines = {};   // run id -> {segments, phases}

  const segmentsOf = (runs) => runs.flatMap((run) => (ds.timelines[run.id] || { segments: [] }).segments);

  const atOrBefore = ([first, last, distance], step) =>
    step < first ? null : Math.min(last, first + Math.floor((step - first) / distance) * distance);
  const atOrAfter = ([first, last, distance], step) =>
    step > last ? null : Math.max(first, first + Math.ceil((step - first) / distance) * distance);

  const best = (candidates, choose) => {
    const found = candidates.filter((candidate) => candidate !== null);
    return found.length ? choose(...found) : null;
  };

  /** The newest recorded step at or before `step`, the first at or after it, and the nearer of both. */
  ds.stepBefore = (runs, step) => best(segmentsOf(runs).map((segment) => atOrBefore(segment, step)), Math.max);
  ds.stepAfter = (runs, step) => best(segmentsOf(runs).map((segment) => atOrAfter(segment, step)), Math.min);
  ds.nearestStep = (runs, step) => {
    const before = ds.stepBefore(runs, step);
    const after = ds.stepAfter(runs, step);
    if (before === null || after === null) return before ?? after;
    return step - before <= after - step ? before : after;
  };

  /** Move `by` recorded steps from `step`; stops at the ends. */
  ds.stepsAway = (runs, step, by) => {
    let place = step;
    for (let i = 0; i < Math.abs(by); i += 1) {
      const next = by < 0 ? ds.stepBefore(runs, place - 1) : ds.stepAfter(runs, place + 1);
      if (next === null) break;
      place = next;
    }
    return place;
  };

  /** Step ticks for the bar: every recorded step when they are at least 6 px apart, else round ones. */
  ds.barTicks = (runs, end, width) => {
    const distances = segmentsOf(runs).map((segment) => segment[2]);
    let distance = distances.length ? Math.min(...distances) : 1;
    const factors = [2, 2.5, 2];
    for (let i = 0; (width * distance) / (end || 1) < 6 && i < 40; i += 1) distance *= factors[i % 3];
    const ticks = [];
    for (let step = 0; step <= end + 1e-9; step += distance) ticks.push(step);
    return ticks;
  };
})();
