/* Asks: what each panel wants from the server. One ask per panel is under way at a time; the newest wish
   goes out when the answer is there, so that a fast slider never queues figures nobody will see. */
(() => {
  const ds = (window.depthscope = window.depthscope || {});
  const wanted = {};
  const pending = {};      // panel -> {key, since}
  const shown = {};        // panel -> {key, versions, shape, held, at}
  const PATIENCE = 6000;   // ms; an answer that failed shows a toast, and the panel may ask again
  const LOADING = 300;
  const READ_SLOWLY = ["findings", "cards", "sentences", "summary", "about", "recorded", "sites", "config", "missing"];
  const FINDINGS_EVERY = 10000;   // ms; findings are read, so they do not change with every new row

  /** What each page brings: questions(view, common) by panel, and what it does when an answer arrived. */
  ds.pages = {};
  ds.definePage = (name, page) => { ds.pages[name] = page; };
  ds.pageOf = (panel) => document.getElementById(`panel-${panel}`)?.closest("[data-of]")?.dataset.of;

  const versionsOf = (view) => Object.fromEntries(view.runs.map((run) => [run.id, run.version]));

  /** The questions of the page, each with only what its answer depends on. */
  const questions = (view) => {
    const runs = view.runs.map((run) => run.id);
    const common = { runs, theme: ds.theme(), end: view.end };
    return {
      timeline: { runs },
      ...(view.page === "overview" ? {} : { findings: { runs: view.page === "run" && view.focus ? [view.focus] : runs, base: view.base, page: view.page } }),
      ...(ds.pages[view.page]?.questions(view, common) || {}),
    };
  };

  const send = (panel) => {
    const wish = wanted[panel];
    if (!wish || ds.dragging() || (pending[panel] && performance.now() - pending[panel].since < PATIENCE)) return;
    const before = shown[panel];
    const same = before && before.key === wish.key;
    const changed = same ? Object.keys(wish.versions).filter((id) => wish.versions[id] !== before.versions[id]) : null;
    if (same && changed.length === 0) return;
    if (same && READ_SLOWLY.includes(panel) && performance.now() - before.at < FINDINGS_EVERY) return;
    const since = performance.now();
    const zoom = zoomOf(panel, wish.question);
    // What an answer that is overdue may still change is unknown.
    const held = pending[panel] ? [] : before?.held ?? [];
    pending[panel] = { key: wish.key, since, zoom: JSON.stringify(zoom) };
    if (!same) window.setTimeout(() => {
      if (pending[panel]?.since === since) document.getElementById(`panel-${panel}`)?.classList.add("waiting");
    }, LOADING);
    window.dash_clientside.set_props(`ask-${panel}`, {
      data: { ...wish.question, panel, key: wish.key, versions: wish.versions, changed, shape: before?.shape ?? "", held, zoom },
    });
  };

  ds.onChange((view) => {
    const versions = versionsOf(view);
    for (const panel of Object.keys(wanted)) delete wanted[panel];   // the last page's wishes go with it
    for (const [panel, question] of Object.entries(questions(view))) {
      wanted[panel] = { question, key: JSON.stringify(question), versions };
      send(panel);
    }
  });

  // Zoom: plotly forgets it when the figure's own range moves, and with live data it does. So the page keeps
  // it, sends it with every ask while the subject stays, and gives it up on a double click.
  const zooms = {};        // panel -> {subject, axes}
  const subject = ({ runs, metric, mode, scale, targets, cell, share, mixing, entry, against, cut, shown: run }) =>
    JSON.stringify([runs, metric, mode, scale, targets, cell, share, mixing, entry, against, cut, run]);

  const zoomOf = (panel, question) => (zooms[panel]?.subject === subject(question) ? zooms[panel].axes : {});

  ds.zoomed = (panel, gd, event) => {
    const names = [...new Set(Object.keys(event).map((key) => /^([xy]axis\d*)\.range/.exec(key)?.[1]).filter(Boolean))];
    if (!names.length || !wanted[panel]) return;
    const now = subject(wanted[panel].question);
    if (zooms[panel]?.subject !== now) zooms[panel] = { subject: now, axes: {} };
    for (const name of names) zooms[panel].axes[name] = [...gd._fullLayout[name].range];
  };
  ds.unzoom = (panel, gd) => {
    const home = gd.layout.meta?.home;
    if (!home) return;
    // An axis that no trace uses stands in the figure and not in what is drawn.
    const drawn = Object.entries(home).filter(([name]) => gd._fullLayout[name]);
    window.Plotly.relayout(gd, Object.fromEntries(drawn.map(([name, range]) => [`${name}.range`, range])))
      .then(() => { delete zooms[panel]; });
  };

  /** Ask for what waited for the end of a drag. */
  ds.askAgain = () => { for (const panel of Object.keys(wanted)) send(panel); };

  /** An answer arrived: `mark` is what it was asked with. */
  ds.answered = (panel, mark) => {
    if (!mark) return;
    // Zoomed, or back at home, while the answer was under way: nothing of it counts as shown, and it is asked for again.
    const late = pending[panel] && wanted[panel] && JSON.stringify(zoomOf(panel, wanted[panel].question)) !== pending[panel].zoom;
    shown[panel] = { key: mark.key, versions: late ? {} : mark.versions, shape: mark.shape, held: mark.held, at: performance.now() };
    delete pending[panel];
    document.getElementById(`panel-${panel}`)?.classList.remove("waiting");
    send(panel);
  };

  /** What a panel last asked for: the numbers behind it are asked for with the same. */
  ds.questionOf = (panel) => wanted[panel]?.question;

  /** Whether everything that the page wants is there. */
  ds.settled = () => ds.page !== null && Object.keys(wanted).every((panel) => !ds.busy(panel));

  /** Whether a panel has not yet got what it wants. */
  ds.busy = (panel) => Boolean(pending[panel]) || !shown[panel] || wanted[panel]?.key !== shown[panel]?.key;
})();
